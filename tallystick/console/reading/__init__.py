"""What pages show, asked of a cluster through the client.

`browsing` records of a partition, a page at a time; `colouring` what became of their transactions (no I/O)
`decoding` bytes as people read them; `registered` with the schemas they were written with
`sampling` counters that move; `timeline` the steps of a transaction as a picture (no I/O)
`broker_http` what a Tallystick broker tells beside Kafka's protocol
"""
