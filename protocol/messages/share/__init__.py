"""The messages of share groups (KIP-932)."""
