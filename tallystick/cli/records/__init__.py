"""cli.records: commands that write and read records.

`produce`, `consume` (and `tail`), `copy`, `bench` the commands
`standard_input` lines as they come; `written_topics` topics and partitions as they are written
`rendering` a record as it is shown; `output` where it is shown, until nobody reads there
`interrupted` what Ctrl-C does
"""
