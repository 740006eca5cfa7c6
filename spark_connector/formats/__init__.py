"""formats: values and keys that a Schema Registry knows, as typed columns.

`registry` questions to a registry: a schema by its id, the latest of a subject
`avro`, `json_schema`, `protobuf` a schema as a type of Spark's, and bytes as plain Python values
`shapes` plain Python values as what Arrow wants for a type
`decoding` a binary column of `kafka-arrow` as a typed one
"""
