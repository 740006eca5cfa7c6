"""Several brokers in processes: started at the same time, and one of them asked alone."""

import threading
from collections.abc import Callable, Iterable
from typing import Any

from protocol.schema import schema_of
from tallystick.client.blocking_connection import BlockingConnection
from tests.harness.confluent import SECONDS


def start_together(starts: Iterable[Callable[[], object]]) -> None:
    """Raises what one of them raised, when all have returned."""
    failed: list[BaseException] = []

    def run(start: Callable[[], object]) -> None:
        try:
            start()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(start,)) for start in starts]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    if failed:
        raise failed[0]


def answer_of(address: str, request: object, client_id: str = "test", *, version: int | None = None) -> Any:
    """What the node at this address answers, and no other: clients go to whom they please. The latest version of the
    request, unless another is named."""
    host, _, port = address.rpartition(":")
    connection = BlockingConnection((host, int(port)), client_id, timeout_s=SECONDS)
    try:
        version = connection.version_for(type(request)) if version is None else version
        connection.send(request, version)
        return connection.receive(schema_of(type(request)).api_key, version)
    finally:
        connection.close()
