"""What ACLs cost: one decision among ten thousand of them, and producing with them beside producing without."""

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path

from broker.security.authorizer import Authorizer
from protocol.acls import Acl, Operation, PatternType, Permission, ResourceType
from protocol.messages.acls import CreateAclsRequest
from tallystick.client.acls import creation_of
from tallystick.client.connection import Connection
from tallystick.process import BrokerProcess
from tests.benchmarks.footprint import Note
from tests.benchmarks.loads import drop, produce
from tests.benchmarks.rows import DECISION, PRODUCE_WITH_ACLS
from tests.benchmarks.targets import PAGE_CACHE, Target
from tests.harness.proxy import free_port

ACLS, PRINCIPALS = 10_000, 100
RECORD_BYTES, RECORDS = 1000, 400_000
SWITCHED_ON = {"authorizer.class.name": "StandardAuthorizer", "allow.everyone.if.no.acl.found": "true"}
"""Who has not said a name may make ACLs as long as there is none of the cluster."""


def many_acls() -> Iterator[Acl]:
    """Of a hundred principals: names and prefixes, one in twenty a denial."""
    for number in range(ACLS):
        prefix = number % 3 == 0
        yield Acl(
            ResourceType.TOPIC,
            f"team{number % 700}.topic{number}" + ("." if prefix else ""),
            PatternType.PREFIXED if prefix else PatternType.LITERAL,
            f"User:{number % PRINCIPALS}",
            "*",
            (Operation.READ, Operation.WRITE, Operation.ALL)[number % 7 % 3],
            Permission.DENY if number % 20 == 0 else Permission.ALLOW,
        )


def decisions(rounds: int, note: Note) -> None:
    """A principal asks for its topics again and again, as clients do; and each for the first time."""
    acls = list(many_acls())
    for _ in range(rounds):
        authorizer = Authorizer()
        for acl in acls:
            authorizer.add(acl)
        asked = [
            (acl.principal, f"{acl.resource_name}x"[: -1 if number % 2 else None]) for number, acl in enumerate(acls)
        ]
        first, again = _timed(authorizer, asked), _timed(authorizer, asked)
        note(DECISION, PAGE_CACHE, {"µs": again, "µs the first time": first})


def _timed(authorizer: Authorizer, asked: list[tuple[str, str]]) -> float:
    """CPU microseconds of one question."""
    began = time.process_time()
    for principal, name in asked:
        authorizer.may(principal, "10.0.0.1", Operation.WRITE, ResourceType.TOPIC, name, quietly=True)
    return (time.process_time() - began) * 1e6 / len(asked)


def producing(rounds: int, scale: float, folder: Path, note: Note) -> None:
    """In turns on a broker with ACLs and on one without."""
    without, with_acls = (_started(folder / name, settings) for name, settings in (("open", {}), ("acls", SWITCHED_ON)))
    try:
        asyncio.run(grant(with_acls.process.port))
        for number in range(-1, rounds):
            open_rate, open_cpu = _rate(without, scale)
            rate, cpu = _rate(with_acls, scale)
            if number >= 0:
                shares = {"of what it is without": rate / open_rate, "broker CPU, the same": cpu / open_cpu}
                note(PRODUCE_WITH_ACLS, PAGE_CACHE, shares | {"MB/s": rate})
    finally:
        without.close()
        with_acls.close()


def _started(folder: Path, settings: dict[str, str]) -> Target:
    chosen = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    process = BrokerProcess(folder, options=["--durability", "page-cache", *chosen], port=free_port())
    process.start()
    return Target(PAGE_CACHE, process)


def _rate(target: Target, scale: float) -> tuple[float, float]:
    """MB/s, and the processor seconds of the broker."""
    os.sync()
    before = target.cpu_seconds()
    topic, figures = produce(target.bootstrap, RECORD_BYTES, max(1000, int(RECORDS * scale)))
    cpu = target.cpu_seconds() - before
    drop(target.bootstrap, topic)
    return figures["MB/s"], cpu


async def grant(port: int) -> None:
    """Those, and that anybody may do everything with topics."""
    anybody = Acl(ResourceType.TOPIC, "*", PatternType.LITERAL, "User:*", "*", Operation.ALL, Permission.ALLOW)
    connection = await Connection.connect("127.0.0.1", port)
    creations = [creation_of(acl) for acl in (anybody, *many_acls())]
    for begin in range(0, len(creations), 1000):
        answer = await connection.ask(CreateAclsRequest(creations=creations[begin : begin + 1000]))
        assert not any(result.error_code for result in answer.results)
    await connection.close()
