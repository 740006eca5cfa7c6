"""coordination: the coordinator machines of this node, connected with partitions, the loop and the clock."""
