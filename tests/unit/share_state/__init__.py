"""The share coordinator: what is kept of share partitions."""
