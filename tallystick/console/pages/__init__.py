"""The pages of the console: each asks through its visit, and shows one template.

`overview` the cluster; `topics`, `topic_changes` topics; `messages` records; `producers` who writes; `groups`;
`transactions`; `settings` brokers; `faults`; `login`; `live` counters as server-sent events
"""
