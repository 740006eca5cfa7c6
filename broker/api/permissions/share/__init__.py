"""What the APIs of share groups need (KIP-932)."""
