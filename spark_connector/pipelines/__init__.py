"""pipelines: three queries as users write them, each on one page, to be copied.

`transfers` money transfers into a ledger with two entries each; `windows` counts per page and minute with late data;
`cdc` changes of a table into a compacted topic (`query`), and from there into Delta or Parquet (`table_query`).
`settings` is what they are started with. They are run through kills, with a verdict on every record, by
`make pipelines`.
"""
