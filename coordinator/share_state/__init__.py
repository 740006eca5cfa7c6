"""The share coordinator (KIP-932): what is kept of share partitions, over `__share_group_state`."""
