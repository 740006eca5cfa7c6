"""coordination: topics and coordinators of this node: machines connected with partitions, the loop and the clock."""
