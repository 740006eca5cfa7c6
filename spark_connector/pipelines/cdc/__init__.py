"""cdc: changes of a table into a compacted topic and a table of Delta or Parquet. See `spark_connector.pipelines`."""
