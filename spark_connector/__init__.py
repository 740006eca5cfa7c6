"""spark_connector: PySpark sources, sinks and pipelines."""
