"""The Spark connector without Spark: columns, hashes, batches, options, checkpoints, the control topic."""
