"""peers: how this node asks others, over ordinary connections: one to each node, requests one behind the other."""
