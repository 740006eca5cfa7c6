"""journals: what a broker noted of transactions and clients, asked over its HTTP side (`asking`), said in sentences
(`sentences`), and told as a scenario that does it again (`scenario`).

The shape of the JSON is described in `broker.journal.reading`, and in docs/explain.md.
"""
