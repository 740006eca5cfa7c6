"""metrics: what is told to Prometheus, in Kafka's names where Kafka has one.

`metric` is a name with its meaning, `requests`, `topics`, `groups` and `state` are the tables and where their numbers
come from, `records_behind` counts records for groups, `collecting` puts all together. Names that begin with `kafka_`
are those that the rules in common use give to Kafka's MBeans (Prometheus's JMX exporter, lower case), and for groups
those of the common exporter for Kafka, so dashboards that know Kafka know them.
"""
