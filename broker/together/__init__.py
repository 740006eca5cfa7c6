"""together: several nodes in one process, over one store in memory, for tests of clients.

`life` is one node from its start to its end, `nodes` all of them, of which one may be killed and started again;
`serving` is the process.
"""
