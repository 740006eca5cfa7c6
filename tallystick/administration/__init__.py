"""administration: what changes a cluster, asked in Kafka's protocol; and what has to be seen for it.

`topics` made, grown, deleted, described
`configs` of topics, brokers and groups
`group_offsets` set anew, deleted; groups deleted
It works on any Kafka 3.0 or newer; what an older one does not know is `UnsupportedByBroker`.
"""
