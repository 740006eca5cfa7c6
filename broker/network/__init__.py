"""network: sockets, frames, the order of answers on a connection."""
