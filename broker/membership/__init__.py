"""How a node lives beside others over a shared store: who lives, who leads the metadata, and how it is followed."""
