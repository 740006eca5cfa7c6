"""`tallystick groups`: groups listed and described, their offsets set anew and deleted."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import click
import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer

from protocol.messages.share.groups import ShareGroupHeartbeatRequest
from tallystick.cli.groups import groups
from tallystick.cli.resetting import duration_ms, time_ms
from tallystick.cli.topics import topics
from tallystick.cli.written_places import read_places
from tallystick.inspection.assignments import assigned
from tests.clients.test_explain_command import run, said
from tests.clients.test_explain_groups import Beating, commit, patiently
from tests.harness.confluent import consumer, wait_until, write
from tests.harness.transactional import TransactionalProducer


def told(bootstrap: str, *arguments: str) -> Any:
    return json.loads(said(groups, bootstrap, *arguments, "--json"))


def made(bootstrap: str, topic: str, partitions: int = 1) -> str:
    """A topic that the brokers' metadata show."""
    said(topics, bootstrap, "create", "--topic", topic, "--partitions", str(partitions))
    return topic


def offsets_of(bootstrap: str, group: str) -> dict[int, int]:
    """Committed, by partition."""
    return {one["partition"]: one["currentOffset"] for one in told(bootstrap, "describe", group)}


def reset(bootstrap: str, group: str, *options: str) -> dict[int, int]:
    """The new offsets, by partition."""
    done = told(bootstrap, "reset-offsets", "--group", group, *options)
    assert done["executed"] is ("--execute" in options)
    return {one["partition"]: one["newOffset"] for one in done["offsets"]}


def test_lag_in_offsets_and_in_records(bootstrap: str, name: str) -> None:
    topic = made(bootstrap, name, 2)

    async def story(client: Any) -> None:
        producer = TransactionalProducer(client, f"{name}-id")
        await producer.init()
        for committed in (True, False):
            producer.begin()
            await producer.produce(topic, 0, [b"a", b"b", b"c"])
            await producer.end(committed=committed)

    run(bootstrap, story)
    commit(bootstrap, name, topic, p0=1, p1=0)
    first, second = told(bootstrap, "describe", name)
    assert (first["currentOffset"], first["logEndOffset"], first["lag"], first["lagInRecords"]) == (1, 8, 7, 2)
    assert (second["currentOffset"], second["logEndOffset"], second["lag"], second["lagInRecords"]) == (0, 0, 0, 0)
    assert first["consumerId"] is first["host"] is first["clientId"] is None
    columns, row, _ = said(groups, bootstrap, "describe", name).splitlines()
    assert columns.split()[:6] == ["Topic", "Partition", "CurrentOffset", "LogEndOffset", "Lag", "LagInRecords"]
    assert row.split() == [topic, "0", "1", "8", "7", "2", "-", "-", "-"]
    uncounted = told(bootstrap, "describe", name, "--count-up-to", "1")
    assert [one["lagInRecords"] for one in uncounted] == [None, 0]
    (state,) = told(bootstrap, "describe", name, "--state")
    assert state == {"group": name, "type": "classic", "assignmentStrategy": None, "state": "Empty", "members": 0}
    assert told(bootstrap, "describe", name, "--members") == []
    assert {"group": name, "type": "classic", "state": "Empty"} in told(bootstrap, "list")
    assert "there is no group of consumers" in said(groups, bootstrap, "describe", f"{name}-nobody", status=1)


def reading(bootstrap: str, group: str, topic: str) -> Consumer:
    """A member of a classic group that has been given its partitions."""
    member = consumer(bootstrap, group__id=group, client__id="reads")
    member.subscribe([topic])
    wait_until(lambda: member.poll(0.05) is None and member.assignment(), "partitions")
    return member


def test_a_group_with_members(bootstrap: str, name: str) -> None:
    topic = made(bootstrap, name, 2)
    commit(bootstrap, name, topic, p0=0)
    member = reading(bootstrap, name, topic)
    try:
        first, second = told(bootstrap, "describe", name)
        assert first["clientId"] == second["clientId"] == "reads" and first["consumerId"] == second["consumerId"]
        assert (first["currentOffset"], second["currentOffset"], second["logEndOffset"]) == (0, None, 0)
        (one,) = told(bootstrap, "describe", name, "--members")
        assert (one["partitions"], one["assignment"]) == (2, f"{topic}-0,{topic}-1")
        assert one["consumerId"] == first["consumerId"] and "127.0.0.1" in one["host"]
        (state,) = told(bootstrap, "describe", name, "--state")
        assert (state["state"], state["members"], state["assignmentStrategy"]) == ("Stable", 1, "range")
        for more in ((), ("--execute",)):
            where = ("reset-offsets", "--group", name, "--topic", topic, "--to-offset", "0", *more)
            text = said(groups, bootstrap, *where, status=1)
            assert f"offsets can only be reset if the group '{name}' is inactive, but the current state is" in text
        assert "NON_EMPTY_GROUP" in said(groups, bootstrap, "delete", name, status=1)
        text = said(groups, bootstrap, "delete-offsets", "--group", name, "--topic", topic, status=1)
        assert "GROUP_SUBSCRIBED_TO_TOPIC" in text and "not every offset was deleted" in text
    finally:
        member.close()
    assert offsets_of(bootstrap, name) == {0: 0}


def test_a_group_of_the_consumer_protocol(bootstrap: str, name: str) -> None:
    topic = made(bootstrap, name)

    async def story(client: Any) -> None:
        member = Beating(client, name, f"{name}-first", topic)

        async def has_it() -> bool:
            await member.heartbeat()
            rows = await asyncio.to_thread(told, bootstrap, "describe", name)
            return [one["consumerId"] for one in rows] == [f"{name}-first"]

        while not await has_it():
            pass
        (one,) = await asyncio.to_thread(told, bootstrap, "describe", name, "--members")
        assert one["assignment"] == f"{topic}-0" and one["currentEpoch"] >= 1
        assert "consumer" in [
            one["type"] for one in await asyncio.to_thread(told, bootstrap, "list") if one["group"] == name
        ]

    run(bootstrap, story)
    text = said(groups, bootstrap, "reset-offsets", "--group", name, "--topic", topic, "--to-latest", status=1)
    assert "but the current state is Stable" in text


def test_offsets_are_set_anew_when_told_so(bootstrap: str, name: str) -> None:
    topic = made(bootstrap, name, 2)
    write(bootstrap, topic, [b"%d" % number for number in range(10)], partition=0)
    write(bootstrap, topic, [b"a", b"b"], partition=1)
    commit(bootstrap, name, topic, p0=4, p1=1)
    here = ("--topic", topic)
    assert reset(bootstrap, name, *here, "--to-earliest") == {0: 0, 1: 0}
    assert reset(bootstrap, name, *here, "--to-latest", "--dry-run") == {0: 10, 1: 2}
    assert "A dry run" in said(groups, bootstrap, "reset-offsets", "--group", name, *here, "--to-latest")
    assert offsets_of(bootstrap, name) == {0: 4, 1: 1}, "nothing was changed"
    assert reset(bootstrap, name, "--topic", f"{topic}:0", "--to-offset", "7", "--execute") == {0: 7}
    assert offsets_of(bootstrap, name) == {0: 7, 1: 1}
    assert reset(bootstrap, name, "--all-topics", "--shift-by", "-2", "--execute") == {0: 5, 1: 0}
    assert offsets_of(bootstrap, name) == {0: 5, 1: 0}
    beyond = told(bootstrap, "reset-offsets", "--group", name, *here, "--to-offset", "8")["offsets"]
    assert [(one["newOffset"], one["note"] is None) for one in beyond] == [(8, True), (2, False)]
    assert [one["currentOffset"] for one in beyond] == [5, 0]
    text = said(groups, bootstrap, "reset-offsets", "--group", name, *here, "--to-latest", "--execute")
    assert text.endswith("The offsets are set.\n") and offsets_of(bootstrap, name) == {0: 10, 1: 2}


def test_offsets_by_time(bootstrap: str, name: str) -> None:
    topic = made(bootstrap, name)
    now = datetime.now(UTC).replace(microsecond=0)
    sender = Producer({"bootstrap.servers": bootstrap})
    for hours in (5, 3, 1):
        sender.produce(topic, b"a", timestamp=round((now - timedelta(hours=hours)).timestamp() * 1000))
        assert sender.flush(60) == 0  # a batch each
    here = ("--topic", topic)
    at = (now - timedelta(hours=3)).replace(tzinfo=None).isoformat()
    assert reset(bootstrap, name, *here, "--to-datetime", at) == {0: 1}
    assert reset(bootstrap, name, *here, "--to-datetime", f"{at}.001") == {0: 2}
    assert reset(bootstrap, name, *here, "--to-datetime", f"{at}-02:00") == {0: 2}
    assert reset(bootstrap, name, *here, "--to-datetime", "1969-01-01T00:00:00") == {0: 0}
    assert reset(bootstrap, name, *here, "--by-duration", "PT4H") == {0: 1}
    assert reset(bootstrap, name, *here, "--by-duration", "PT0S", "--execute") == {0: 3}, "the end: nothing is as young"
    assert offsets_of(bootstrap, name) == {0: 3}, "the group is made by it"


def test_what_cannot_be_set(bootstrap: str, name: str) -> None:
    topic = made(bootstrap, name)
    where = ("reset-offsets", "--group", name)
    shifted = said(groups, bootstrap, *where, "--topic", topic, "--shift-by", "1", status=1)
    assert f"{topic}-0 has no committed offset" in shifted
    assert "has committed no offset" in said(groups, bootstrap, *where, "--all-topics", "--to-latest", status=1)
    for wrong in (f"{topic}:1", f"{topic}-nobody"):
        text = said(groups, bootstrap, *where, "--topic", wrong, "--to-latest", status=1)
        assert "UNKNOWN_TOPIC_OR_PARTITION" in text
    assert "no group of consumers" in said(groups, bootstrap, "describe", name, status=1), "nothing was made"


def test_a_share_group_has_no_offsets_of_consumers(bootstrap: str, name: str) -> None:
    topic = made(bootstrap, name)
    joins = ShareGroupHeartbeatRequest(
        group_id=name, member_id="AAAAAAAAAAAAAAAAAAAAAA", member_epoch=0, subscribed_topic_names=[topic]
    )
    run(bootstrap, lambda client: patiently(client, name, joins))
    assert [one["type"] for one in told(bootstrap, "list") if one["group"] == name] == ["share"]
    where = ("reset-offsets", "--group", name, "--topic", topic, "--to-latest")
    assert f"'{name}' is a share group" in said(groups, bootstrap, *where, status=1)


def test_groups_and_offsets_are_deleted(bootstrap: str, name: str) -> None:
    topic = made(bootstrap, name, 3)
    commit(bootstrap, name, topic, p0=0, p1=0, p2=0)
    done = told(bootstrap, "delete-offsets", "--group", name, "--topic", f"{topic}:1")
    assert done == [{"topic": topic, "partition": 1, "status": "Successful"}]
    assert sorted(offsets_of(bootstrap, name)) == [0, 2]
    commit(bootstrap, name, topic, p1=0)
    assert len(told(bootstrap, "delete-offsets", "--group", name, "--topic", f"{topic}:0,2")) == 2
    nothing = said(groups, bootstrap, "delete-offsets", "--group", name, "--topic", f"{topic}-nobody", status=1)
    assert "has committed no offset" in nothing
    assert told(bootstrap, "delete", name) == {"group": name, "deleted": True}
    assert "GROUP_ID_NOT_FOUND" in said(groups, bootstrap, "delete", name, status=1)
    assert name not in [one["group"] for one in told(bootstrap, "list")]


@pytest.mark.parametrize(
    "options",
    [
        ("--topic", "t"),
        ("--to-latest",),
        ("--topic", "t", "--all-topics", "--to-latest"),
        ("--topic", "t", "--to-latest", "--to-offset", "0"),
        ("--topic", "t", "--to-latest", "--dry-run", "--execute"),
        ("--topic", "t", "--to-offset", "-1"),
        ("--topic", "t:", "--to-latest"),
        ("--topic", "t", "--topic", "t:1", "--to-latest"),
        ("--topic", "t", "--to-datetime", "yesterday"),
        ("--topic", "t", "--by-duration", "1h"),
    ],
)
def test_what_cannot_be_meant(options: tuple[str, ...]) -> None:
    arguments = ["reset-offsets", "--group", "g", *options, "--bootstrap-server", "localhost:1"]
    assert CliRunner().invoke(groups, arguments).exit_code == 2


def test_how_times_and_places_are_written() -> None:
    assert (
        duration_ms("P1DT2H3M4.5S") == 93_784_500
        and duration_ms("pt1m") == 60_000
        and duration_ms("P2D") == 172_800_000
    )
    for wrong in ("P", "PT", "P1DT", "P1W", "", "-PT1S", "PT1.5H"):
        with pytest.raises(click.BadParameter):
            duration_ms(wrong)
    assert time_ms("1970-01-01T00:00:01.500") == 1500 == time_ms("1970-01-01T02:00:01.500+02:00")
    assert read_places(("t", "u:0, 2")) == {"t": None, "u": frozenset({0, 2})}


def test_an_assignment_that_is_none() -> None:
    whole = b"\x00\x01" + b"\x00\x00\x00\x01" + b"\x00\x01t" + b"\x00\x00\x00\x02" + b"\x00\x00\x00\x03\x00\x00\x00\x05"
    assert assigned(whole) == {("t", 3), ("t", 5)} == assigned(whole + b"\x00\x00\x00\x00")
    for cut in range(len(whole)):
        assert assigned(whole[:cut]) == frozenset()
    assert assigned(b"\x00\x01\x7f\xff\xff\xff\x80\x00" + bytes(9)) == frozenset()
    assert assigned(b"\x00\x01\x7f\xff\xff\xff\x00\x01\xff") == frozenset()
