"""The conformance matrix: stories that many clients tell with one broker, and what each of them saw.

`stories.toml` has the stories, `programs` a program for each client that knows the steps they are made of. `story`
reads the list, `place` is where they are told, `stage` sets the scene of each and looks at the log afterwards,
`clients` makes the programs ready, `run` runs them, `judge` compares what they saw with what the list says, and
`page` makes a table of it for docs/compatibility.md. `python -m tests.conformance.matrix` does all of it.
"""
