"""http: what a broker says and does over HTTP, in a thread beside its loop; absent unless asked for.

`address` says where it listens and what guards it, `serving` runs the thread, `bounded_connection` keeps clients from
holding it up, `guarded` lets in whom it may, `seen_broker` is how an answer asks the broker's loop, `operation` what a
route is, `routes` has a file for each family of them.
"""
