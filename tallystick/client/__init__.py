"""client: a thin client over `protocol`, for our own tests and tools.

`connection` one TCP connection, pipelined, answers in order; versions are negotiated
`client` metadata, coordinators, routing to leaders, and the few requests that tests and tools live by
`blocking` the same without asyncio
`security` what a connection is made with: TLS, credentials; `security_settings` makes it of a client's settings
`sasl` the conversations of PLAIN, SCRAM and OAUTHBEARER; `tokens` where tokens come from; `greeting` what is said first
`blocking_connection` a connection for bulk reading: it says the same at first, over the same TLS
`tls_refusals` what OpenSSL's errors mean; `diagnosis` why a broker hangs up at once; `session` until when one lasts
`lease` a transaction that several processes may write to and any of them may end
`sender` batches into partitions under a lease: in order, idempotent, with bounded memory
`background` an event loop in a thread of its own, for programs that block; one per process
`errors` an error code as an exception
"""
