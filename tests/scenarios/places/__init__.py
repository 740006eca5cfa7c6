"""Where a scenario is played: `virtual` in process, `tcp` against a server of its own, `kafka` against the oracle."""
