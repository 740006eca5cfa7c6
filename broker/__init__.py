"""broker: the only package that touches the world: sockets, clock, files, metrics."""
