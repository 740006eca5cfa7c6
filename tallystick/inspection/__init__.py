"""inspection: what a cluster knows of transactions, groups and offsets, asked in Kafka's protocol, and what follows.

`places` partitions, their leaders and where they begin and end
`transactions` transactional ids and producers, and the two ways to end a transaction that is not one's own
`groups` groups, their members and committed offsets
`assignments` what members of classic groups have
`stuck` why readers of committed records stand still
`lag` how far groups are behind, without control records
`waiting` what a group waits for
`authorized` what the user of a client may do
Looking changes nothing. It works on any Kafka 3.0 or newer; what an older one does not know is `UnsupportedByBroker`.
"""
