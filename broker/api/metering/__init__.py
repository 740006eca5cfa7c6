"""metering: counting what becomes of requests, where a broker is watched.

`request_meter` has the numbers, `answered_errors` finds the error codes of an answer.
"""
