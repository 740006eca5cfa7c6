"""tracing: transactions that have ended, as OpenTelemetry traces, where a collector is named.

`destination` whether and where to; where nowhere, no other is imported. `waiting_transactions` what the loop hands
over, bounded; `transaction_trace` what the events of one transaction are as spans, in pure code; `exporting` the thread
that makes and sends them, the only file that imports OpenTelemetry.
"""
