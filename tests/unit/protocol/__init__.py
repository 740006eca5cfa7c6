"""protocol: codec, framing, record batches."""
