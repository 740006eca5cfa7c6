"""What goes from node to node: who they are, what each leads, and what one asks of another."""
