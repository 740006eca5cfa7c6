"""Attacks on quotas: clients that go on although they are not read from, and more clients than can be counted."""

from contextlib import suppress

from protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlteredQuotaEntity,
    QuotaAlterationEntry,
    QuotaOperation,
)
from tests.attacks import wire
from tests.attacks.registry import case
from tests.attacks.trial import Trial
from tests.attacks.wire import Hangup, Link
from tests.harness.framing import request_frame

PUSHED_BYTES = 4 << 20
GREEDY = "greedy"


def set_quota(link: Link, client_id: str | None, **quotas: float) -> None:
    entity = [AlteredQuotaEntity(entity_type="client-id", entity_name=client_id)]
    ops = [QuotaOperation(key=key, value=value) for key, value in quotas.items()]
    entry = QuotaAlterationEntry(entity=entity, ops=ops)
    answer = link.request(AlterClientQuotasRequest(entries=[entry], validate_only=False), 1, client_id="operator")
    assert [one.error_code for one in answer.entries] == [0]


@case(
    short={"connections": 15},
    long={"connections": 1_000},
    # What is not read hides that its client has gone; such a connection is closed as an idle one, as by Kafka.
    settings={"connections.max.idle.ms": "10000"},
    peak_mb=150,
)
def throttled_and_pushing(trial: Trial, *, connections: int) -> None:
    """Clients that used a year of their quota send on, as much as the sockets take."""
    operator = trial.connect()
    set_quota(operator, GREEDY, request_percentage=1e-9, producer_byte_rate=1)
    wire.make_topic(operator, "pushed")
    batch = wire.batch_of([b"v" * 1_000])
    more = request_frame(wire.produce("pushed", wire.batch_of([b"v" * 100_000])), 9, 2, GREEDY)
    for _ in range(connections):
        link = trial.connect()
        answer = link.request(wire.produce("pushed", batch), 9, client_id=GREEDY)
        trial.require(answer.throttle_time_ms > 10_000, f"throttled for {answer.throttle_time_ms} ms only")
        link.socket.settimeout(0.2)
        with suppress(TimeoutError, OSError, Hangup):
            for _ in range(PUSHED_BYTES // len(more)):
                link.send(more)
    link = trial.connect()
    for _ in range(5):
        code, _ = wire.produced(link.request(wire.produce("pushed", batch), 9))
        trial.require(code == 0, f"another client got the error {code}")


@case(short={"clients": 3_000}, long={"clients": 200_000}, peak_mb=100)
def more_clients_than_are_counted(trial: Trial, *, clients: int) -> None:
    """One connection that is another client with each request, where all have a quota of their own."""
    link = trial.connect()
    set_quota(link, None, request_percentage=1e6, producer_byte_rate=1e12, consumer_byte_rate=1e12)
    for number in range(clients):
        name = f"{number}-{'x' * (number % 2 * 2_000)}"
        link.request(wire.versions(), 0, client_id=name)
