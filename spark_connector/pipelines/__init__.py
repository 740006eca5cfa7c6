"""pipelines: three queries as users write them, run through kills, and a verdict on every record of them.

`transfers` money transfers into a ledger with two entries each; `windows` counts per page and minute with late data;
`cdc` changes of a table into a compacted topic, and from there into Parquet. In each of them:
    `query` the Spark part, on one page, to be copied
    `plan` what is written into the source, drawn from the seed
    `verdict` what was read, held against the plan; pure
    `pipeline` topics, the end of the work, and how the verdict gets what it needs

`command` options, a broker of our own; `director` writers, driver and faults of one run; `driver` the process with
Spark in it, `driver_process` the same from outside; `faults` what is struck and when; `writer` transactions into a
topic; `reading` whole topics, markers and ends; `batch_log` what Spark's checkpoint says of each micro-batch;
`stall` how far readers are held back; `chart` a picture of latencies and stalls; `show` what a person sees.
"""
