"""Share groups (KIP-932): their members, who is assigned which partitions, and which of them are initialised."""
