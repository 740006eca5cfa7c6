"""pipelines: the example queries of `spark_connector.pipelines` run through kills, and a verdict on every record.

For each of `transfers`, `windows` and `cdc`:
    `plan` what is written into the source, drawn from the seed
    `verdict` what was read, held against the plan; pure
    `pipeline` topics, the end of the work, and how the verdict gets what it needs

`command` options, a broker of our own; `director` writers, driver and faults of one run; `driver` the process with
Spark in it, `driver_process` the same from outside; `faults` what is struck and when; `writer` transactions into a
topic; `reading` whole topics, markers and ends; `batch_log` what Spark's checkpoint says of each micro-batch;
`stall` how far readers are held back; `chart` a picture of latencies and stalls; `show` what a person sees.
"""
