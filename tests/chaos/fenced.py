"""Is fenced by a second producer before each step of a transaction: `python -m tests.chaos.fenced CLIENT BOOTSTRAP`.

Prints what the driver said, a line for each step. A process of its own, for clients leave threads behind.
"""

import os
import sys

from tests.chaos.drivers.driver import Driver, Failed, make_driver

TIMEOUT_MS = 30_000
STEPS = ("begin", "send", "answers", "offsets", "end")
TOPIC, PARTITIONS = "t", 3


def fenced_before(step: str, client: str, bootstrap: str) -> str:
    """What `client` says of being fenced."""
    old, new = (make_driver(client, bootstrap, f"{client}-{step}", TIMEOUT_MS) for _ in range(2))
    try:
        old.init()
        _a_transaction(old, step, new)
    except Failed as failed:
        return str(failed)
    finally:
        old.close()
        new.close()
    return "nothing"


def _a_transaction(driver: Driver, step: str, successor: Driver) -> None:
    """`successor` takes the id over before `step`."""

    def at(name: str) -> None:
        if step == name:
            successor.init()

    at("begin")
    driver.begin()
    at("send")
    for index in range(PARTITIONS):
        driver.send((TOPIC, index), b"1", b"k")
    at("answers")
    if None in driver.sent():
        driver.abort()  # the worker does so, and may learn only now that nothing can be aborted any more
    at("offsets")
    driver.send_offsets("group", {(TOPIC, 0): 1}, None)
    at("end")
    driver.commit()


if __name__ == "__main__":
    for step in STEPS:
        print(step, fenced_before(step, *sys.argv[1:]), sep=": ", flush=True)
    os._exit(0)  # as the worker does
