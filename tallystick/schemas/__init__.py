"""schemas: values that a schema registry knows, read with the schema they were written with.

`wire` what serialisers put in front of a value
`registry` schemas by their number, each asked for once, and values as JSON
`avro`, `protobuf` one format each, where its library is installed
`proto_text` a schema of Protobuf as a file descriptor; `proto_values` a message of Protobuf as JSON
Whoever writes records or schemas makes nothing here expensive: what could stand for far more than there is of it is not
read.
"""
