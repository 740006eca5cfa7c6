"""broker: the only package that touches the world: sockets, clock, files. `docs/architecture.md` shows its rooms."""
