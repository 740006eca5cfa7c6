"""A whole broker and its clients in one process, on virtual time, a seeded network and a seeded disk.

`loop` time and order: every process of a run is an event loop over one scheduler, and can die
`disk`, `network`, `environment` the world, with its faults
`broker_process` the real node and server in there, started, killed and started again
`shape` what a plan is; `plan` what a seed means: which clients (`plan_clients`), which faults (`plan_faults`)
`faults` they strike, and the broker comes back; `points` those inside the broker; `ending` the last look, `memory` too
`clients/` model clients; they write down what they did and saw in a `history`
`checkers/` what must hold of a history, one file for each kind of wrong
`simulation` one run; `shrink` the shortest run that still fails; `run` many of them
`defects` known ways to be wrong, to be planted
"""
