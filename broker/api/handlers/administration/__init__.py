"""What administrators ask: about disks, members of the cluster, and metrics of clients."""
