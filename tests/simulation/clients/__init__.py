"""Model clients: what programs do with a broker, and what they write down about it.

`session` requests that survive the loss of a connection
`sending` batches of an idempotent producer: five in flight, the same sequences however often they are sent
`idempotent`, `transactional`, `worker`, `reader`, `admin` the clients themselves
"""
