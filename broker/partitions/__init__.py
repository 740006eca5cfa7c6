"""partitions: one partition, from the checks of a batch to what readers may see."""
