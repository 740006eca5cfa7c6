"""What share groups need of this node: the share coordinator over `__share_group_state`, topics, settings (KIP-932)."""
