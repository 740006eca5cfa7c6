"""console: a page about a cluster, served by a process of its own that is a client like any other.

`options` what it is started with; `server` the process: where it listens, when it ends
`application` the table of pages; `guarding` what holds for each answer (which hosts are served, which headers are sent)
`sessions` who is logged in; `cluster` the connections of one user; `visit` one request, and what a page can do with it
`rendering` templates, and how values are written
`reading` what pages show, asked of the cluster: records with what became of their transactions, counters, timelines
`pages` one file per page
Nothing here is imported before a console is asked for, and nothing here looks into a broker: what a user may see and do
is what the broker lets this user see and do.
"""
