"""records: record batches, records, control records, compression."""
