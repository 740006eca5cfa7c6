"""The cluster coordinator, the topics of a node, and the handlers over them."""
