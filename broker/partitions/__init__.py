"""partitions: topics and their partitions on this node, from the checks of a batch to what readers may see."""
