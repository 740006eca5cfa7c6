"""What administrators ask."""
