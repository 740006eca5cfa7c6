"""Scenarios: stories in text files, run against the broker in process, over TCP, and to a real Apache Kafka.

`README.md` explains the language; `language` reads it, `engine` plays it, `places` are where it is played,
`normalise` is the one place that says which parts of an answer are not compared.
"""
