"""The protocol of the exactly-once sink as a model that is searched to its end. Pure Python, without Kafka or Spark.

`kafka` the broker: coordinator, partitions with epochs and sequences, end markers; three sets of rules
`world` one state of everything: broker, Spark's notes, tries, tasks, requests that are still under way
`steps` what a try does, request by request, in mode A1 (one task), An (tasks under one lease,
    tried again as a whole) and the format with all tasks
`turns` what those tasks do: they write to all partitions, each in its turn
`requests` the next request of each to the broker
`shared` what is different with all tasks of the format, which Spark runs again, and nobody the batch
`faults` what may go wrong at any moment: crashes, zombies, second drivers, repeated and late requests, timeouts
`properties` what must hold in each state: I1 to I7, L1
`settings` what is searched, and the protocols with one thing wrong: `Flaw`; `findings` runs them all
`explore` the search: breadth first, so that a counterexample is a shortest one

`python -m tests.sink_model` searches everything and reports what it found.
"""
