"""network: sockets, frames, the order of answers on a connection, and the budget of what connections hold."""
