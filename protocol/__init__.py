"""protocol: bytes ⇄ typed messages and record batches. Pure: no I/O, no clock, no state."""
