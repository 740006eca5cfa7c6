"""peers: how this node asks others, over ordinary connections: one for each matter to each node, requests one behind
the other."""
