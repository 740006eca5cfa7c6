"""broker.offline: looking at files without a broker, and without changing a byte of them.

`__main__` the process: `dump` and `verify`, started by the command line through the guard
`untouched` a data folder, read only; whether a broker uses it
`walk` the batches of a log file, and what is none
`dumping` files in the words of `kafka-dump-log`; `dumped_tables` the small ones
`findings` what a look has found: damage, and what the next start mends by itself
`data_folder` all of a data folder; `partition_log` one log; `indexes` and `producer_files` what lies beside segments
`coordinator_logs` what the logs of coordinators say
"""
