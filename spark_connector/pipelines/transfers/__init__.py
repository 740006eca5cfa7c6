"""transfers: money transfers into a double-entry ledger. See `spark_connector.pipelines`."""
