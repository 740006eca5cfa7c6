"""producers: what follows from the batches of a log: sequences of producers, aborted transactions."""
