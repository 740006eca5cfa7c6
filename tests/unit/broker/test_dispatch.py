"""What is read of a request's header, and what a request counts for while it waits."""

from typing import Any

import pytest

from broker.api.api_families import load_handlers
from broker.api.context import ConnectionInfo, RequestContext
from broker.api.dispatch import DECODED_FACTOR, REMEMBERED_BYTES, Call, Dispatcher
from protocol.errors import ProtocolError
from protocol.framing import request_parts
from protocol.messages.metadata import ApiVersionsRequest

CONNECTION = ConnectionInfo(1, "PLAINTEXT", "127.0.0.1", 1)


def test_what_waits_counts_as_what_it_may_weigh_decoded() -> None:
    """A long poll over a hundred thousand partitions is much larger as objects than it was as a frame; the records of
    a Produce stay the bytes they are."""
    catalogue = load_handlers()
    weights = {}
    for key in (0, 1, 11):
        context = RequestContext(CONNECTION, key, catalogue[key].versions.start, 1, None)
        weights[key] = Call(catalogue[key], context, None).weight(1000)
    assert weights == {0: 1000, 1: 1000 * DECODED_FACTOR, 11: 1000 * DECODED_FACTOR}


def test_every_request_has_the_client_id_it_came_with() -> None:
    """Mostly that of the one before, which is not read again; a connection keeps none that is long."""
    services: Any = None
    dispatcher = Dispatcher(services, load_handlers())
    connection = ConnectionInfo(1, "PLAINTEXT", "127.0.0.1", 1)
    long = "l" * (REMEMBERED_BYTES + 1)
    for client_id in ("", None, "one", "one", None, "on", "two", long, "two", "", "zwölf", long):
        parts = request_parts(ApiVersionsRequest(), 0, 1, client_id)
        assert dispatcher.read(connection, b"".join(parts)[4:]).context.client_id == client_id
    assert (connection.client_id, connection.client_id_bytes) == ("zwölf", "zwölf".encode())
    frame = b"".join(request_parts(ApiVersionsRequest(), 0, 1, "two"))[4:]
    for bad in (frame[:-1], frame[:-1] + b"\xff"):
        with pytest.raises(ProtocolError):
            dispatcher.read(connection, bad)
