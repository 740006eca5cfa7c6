"""`tallystick produce`, `consume` and `tail`: records in and out, in transactions that end in every way."""

import itertools
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
import pytest
from click.testing import CliRunner
from confluent_kafka.admin import NewPartitions

from tallystick.cli.groups import groups
from tallystick.cli.records.consume import consume, tail
from tallystick.cli.records.produce import produce
from tallystick.cli.transactions import transactions
from tests.clients.test_explain_command import open_one, said
from tests.harness.confluent import admin, make_topic, read_all, wait_until, write


def told(
    command: click.Command, bootstrap: str, *arguments: str, lines: bytes = b"", status: int = 0
) -> tuple[str, str]:
    """What it says on stdout and on stderr."""
    done = CliRunner().invoke(command, ["--bootstrap-server", bootstrap, *arguments], input=lines)
    assert done.exit_code == status, done.output
    return done.stdout, done.stderr


def records(bootstrap: str, *arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in told(consume, bootstrap, *arguments, "--json")[0].splitlines()]


def values(bootstrap: str, *arguments: str) -> list[str]:
    return [one["value"] for one in records(bootstrap, *arguments)]


@contextmanager
def running(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command in a process of its own."""
    command = [sys.executable, "-m", "tallystick", *words]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            yield process
        finally:
            process.kill()


def test_lines_come_out_as_they_went_in(bootstrap: str, name: str) -> None:
    make_topic(bootstrap, name, 3)
    lines = b"".join(b"k%d=v%d\n" % (number % 50, number) for number in range(3000))
    for compression in ("none", "zstd"):
        more = ("--key-separator", "=", "--header", "from=test", "--compression", compression)
        assert told(produce, bootstrap, name, *more, lines=lines)[1] == f"Produced 3000 records into {name}.\n"
    shown = told(consume, bootstrap, name, "--key-separator", "=")[0].encode()
    assert sorted(shown.splitlines()) == sorted(2 * lines.splitlines())
    by_java = {(one.key(), one.partition()) for one in read_all(bootstrap, name)}
    assert len(by_java) == 50 and {one[1] for one in by_java} == {0, 1, 2}
    write(bootstrap, name, [b"k0"], partitioner="murmur2_random")  # key and value are the same
    (as_java,) = records(bootstrap, name, "--where", "value = 'k0'")
    assert {number for key, number in by_java if key == b"k0"} == {as_java["partition"]}
    assert all(one["headers"] == [{"name": "from", "value": "test"}] for one in records(bootstrap, name, "--max", "7"))


def test_json_goes_round(bootstrap: str, name: str) -> None:
    make_topic(bootstrap, name, 2)
    sent = [
        {"partition": 1, "key": None, "value": "plain", "timestamp": 1_600_000_000_000},
        {"partition": 1, "keyBase64": "/w==", "value": None, "headers": [{"name": "a", "valueBase64": "/w=="}]},
        {"partition": 0, "key": "é", "value": '{"a": 1}', "headers": [{"name": "a", "value": None}] * 2},
    ]
    lines = "".join(json.dumps(one) + "\n" for one in sent).encode()
    counts = json.loads(told(produce, bootstrap, name, "--json", lines=lines)[0])
    assert (counts["records"], counts["committed"]) == (3, False)
    assert counts["partitions"] == [{"partition": 0, "records": 1}, {"partition": 1, "records": 2}]
    found = records(bootstrap, name)
    for one in sent:
        (same,) = [it for it in found if all(it.get(field) == value for field, value in one.items())]
        assert one.get("timestamp") in (None, same["timestamp"])
    copied = told(consume, bootstrap, name, "--json")[0].encode()
    told(produce, bootstrap, name, "--json", lines=copied)
    second = records(bootstrap, f"{name}:0", "--from", "1")
    assert [{**one, "offset": 0} for one in second] == [{**one, "offset": 0} for one in found if not one["partition"]]


@pytest.mark.parametrize("acks", ["all", "1", "0"])
def test_acks(bootstrap: str, name: str, acks: str) -> None:
    make_topic(bootstrap, name)
    told(produce, bootstrap, name, "--acks", acks, lines=b"a\nb\nc")
    wait_until(lambda: values(bootstrap, name) == ["a", "b", "c"], "they are there")
    (producers,) = [
        json.loads(said(transactions, bootstrap, "describe-producers", "--topic", name, "--partition", "0", "--json"))
    ]
    assert len(producers) == (acks == "all"), "idempotent where all acknowledge"


def test_colours_of_transactions(bootstrap: str, name: str) -> None:
    make_topic(bootstrap, name)
    make_topic(bootstrap, f"{name}-large")
    told(produce, bootstrap, name, lines=b"p")
    mine = (name, "--key-separator", ":", "--transactional-id", name)
    assert "Committed 2 records" in told(produce, bootstrap, *mine, lines=b"k:c1\nk:c2\n")[1]
    refused = told(produce, bootstrap, *mine, lines=b"k:never\nwrong\n", status=1)[1]
    assert "line 2: there is no ':' behind the key; the transaction is aborted" in refused
    large = b"k:" + b"x" * 300_000 + b"\n"  # a batch is on its way before the line that is none is met
    assert "line 2: " in told(produce, bootstrap, f"{name}-large", *mine[1:], lines=large + b"wrong\n", status=1)[1]
    open_one(bootstrap, f"{name}-aborted", (name, 0))
    said(transactions, bootstrap, "force-terminate", "--transactional-id", f"{name}-aborted")
    open_one(bootstrap, f"{name}-open", (name, 0))
    told(produce, bootstrap, *mine, lines=b"k:c3\n")
    wait_until(lambda: len(records(bootstrap, name, "--isolation", "uncommitted", "--control")) == 13, "all markers")
    assert values(bootstrap, name) == ["p", "c1", "c2"], "what is behind an open transaction is not shown"
    everything = records(bootstrap, name, "--isolation", "read_uncommitted", "--control")
    shown = [(one.get("control") or one["value"], one["transaction"]) for one in everything]
    assert shown == [
        ("p", None),
        *(("c1", "committed"), ("c2", "committed"), ("COMMIT", "control")),
        *((value, "aborted") for value in "abc"),
        ("ABORT", "control"),
        *((value, "open") for value in "abc"),
        *(("c3", "committed"), ("COMMIT", "control")),
    ]
    assert [one["offset"] for one in everything] == list(range(13))
    opened = told(consume, bootstrap, name, "--isolation", "uncommitted", "--where", "transaction = 'open'")[0]
    assert opened == "open       a\nopen       b\nopen       c\n"
    said(transactions, bootstrap, "force-terminate", "--transactional-id", f"{name}-open")
    wait_until(lambda: values(bootstrap, name) == ["p", "c1", "c2", "c3"], "the open one is aborted")
    assert [one["offset"] for one in records(bootstrap, name, "--control") if "control" in one] == [3, 7, 12, 13]


def test_where_reading_begins_and_ends(bootstrap: str, name: str) -> None:
    make_topic(bootstrap, name, 2, retention__ms="-1")
    lines = [{"partition": at % 2, "value": str(at), "timestamp": 1_600_000_000_000 + 60_000 * at} for at in range(20)]
    told(produce, bootstrap, name, "--json", lines="\n".join(map(json.dumps, lines)).encode())
    for options, shown in (
        (("--from", "8"), [16, 17, 18, 19]),
        (("--from", "-1"), [18, 19]),
        (("--from", "99"), []),
        (("--until", "1"), [0, 1]),
        (("--from", "2", "--until", "-7"), [4, 5]),
        (("--from", "2020-09-13T12:43", "--until", "@1600001160001"), [17, 18, 19]),
        (("--until", "2020-09-13T14:30+02:00"), [0, 1, 2, 3]),
        (("--from", "-1d"), []),
        (("--from", "end"), []),
        (("--where", "value ~ '^.$'", "--from", "3"), [6, 7, 8, 9]),
    ):
        assert sorted(map(int, values(bootstrap, name, *options))) == shown, options
    assert values(bootstrap, f"{name}-1", "--max", "2") == values(bootstrap, f"{name}:1", "--until", "2") == ["1", "3"]
    assert values(bootstrap, f"{name}-1", f"{name}-0", "--max", "20", "--from", "9") in (["18", "19"], ["19", "18"])
    make_topic(bootstrap, f"{name}-1", 1)
    assert values(bootstrap, f"{name}-1") == [], "a topic of that name goes first"


def test_a_group_goes_on_where_it_was(bootstrap: str, name: str) -> None:
    make_topic(bootstrap, name)
    told(produce, bootstrap, name, lines=b"1\n2\n3\n4\n5\n6")
    mine = (name, "--group", name)
    assert values(bootstrap, *mine, "--max", "2") == ["1", "2"]
    assert values(bootstrap, *mine, "--max", "1", "--where", "value = '4'") == ["4"]
    (place,) = json.loads(said(groups, bootstrap, "describe", name, "--json"))
    assert place["currentOffset"] == 4
    assert values(bootstrap, *mine) == ["5", "6"] and values(bootstrap, *mine) == []


def test_partitions_that_are_added_are_followed_from_their_first_record_on(bootstrap: str, name: str) -> None:
    make_topic(bootstrap, name)
    write(bootstrap, name, [b"old"])
    with running("tail", name, "--template", "{partition} {value}\\n", "--bootstrap-server", bootstrap) as following:
        assert following.stdout is not None

        def is_followed() -> bool:
            """It begins at the end, wherever that is by then."""
            write(bootstrap, name, [b"x"], partition=0)
            assert following.stdout is not None
            return bool(select.select([following.stdout], [], [], 0.2)[0])

        wait_until(is_followed, "the first record")
        client = admin(bootstrap)
        client.create_partitions([NewPartitions(name, 2)])[name].result(60)
        write(bootstrap, name, [b"new"] * 2, partition=1)
        lines = iter(following.stdout.readline, b"")
        assert list(itertools.islice((line for line in lines if line != b"0 x\n"), 2)) == [b"1 new\n"] * 2


@pytest.mark.parametrize("more", [(), ("--compression", "gzip"), ("--transactional-id", "small", "--partition", "0")])
def test_a_topic_that_takes_smaller_batches_is_given_those(bootstrap: str, name: str, more: tuple[str, ...]) -> None:
    make_topic(bootstrap, name, 2, max__message__bytes="2000")
    lines = [os.urandom(200 + number % 9).hex().encode() for number in range(300)]
    assert " 300 records" in told(produce, bootstrap, name, *more, lines=b"\n".join(lines))[1]
    wait_until(lambda: len(values(bootstrap, name)) == len(lines), "the markers")
    assert sorted(values(bootstrap, name)) == sorted(line.decode() for line in lines)


def test_what_comes_is_followed_through_signals(bootstrap: str, name: str) -> None:
    make_topic(bootstrap, name)
    make_topic(bootstrap, f"{name}-b")
    where = ("--bootstrap-server", bootstrap)
    with running("tail", name, f"{name}-b", "--from", "beginning", *where) as following:
        assert following.stdout is not None
        for topic, value in ((name, b"first"), (f"{name}-b", b"second"), (name, b"\xff\x1b[2J")):
            told(produce, bootstrap, topic, lines=value)
            assert following.stdout.readline() == value + b"\n", "a pipe gets what was produced"
        following.send_signal(signal.SIGINT)
        assert following.wait(60) == 130 and following.stderr is not None and following.stderr.read() == b""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_transaction_that_is_interrupted_is_aborted(bootstrap: str, name: str, number: signal.Signals) -> None:
    make_topic(bootstrap, name)
    with running("produce", name, "--transactional-id", name, "--bootstrap-server", bootstrap) as writing:
        assert writing.stdin is not None and writing.stderr is not None
        writing.stdin.write(b"never\n")
        writing.stdin.flush()
        wait_until(lambda: values(bootstrap, name, "--isolation", "uncommitted") == ["never"], "it is written")
        writing.send_signal(number)
        assert (writing.wait(60), writing.stderr.read()) == (128 + number, b"")
    wait_until(lambda: len(records(bootstrap, name, "--control")) == 1, "its marker")
    (marker,) = records(bootstrap, name, "--control")
    assert marker["control"] == "ABORT" and values(bootstrap, name) == []


def test_a_pipe_that_is_closed_is_no_failure(bootstrap: str, name: str) -> None:
    make_topic(bootstrap, name)
    told(produce, bootstrap, name, lines=b"0123456789\n" * 40_000)
    with running("consume", name, "--bootstrap-server", bootstrap) as reading:
        assert reading.stdout is not None and reading.stderr is not None
        assert reading.stdout.readline() == b"0123456789\n"
        reading.stdout.close()
        assert (reading.wait(60), reading.stderr.read()) == (0, b"")


@pytest.mark.parametrize(
    ("words", "ends", "sentence"),
    [
        ("produce", "<&-", "standard input is closed"),
        ("produce --transactional-id x", "<&-", "standard input is closed; the transaction is aborted"),
        ("consume", ">&-", "standard output is closed"),
        ("consume", ">/dev/full", "standard output cannot be written: No space left on device"),
    ],
)
def test_ends_that_are_closed_or_full(bootstrap: str, name: str, words: str, ends: str, sentence: str) -> None:
    if "/dev/full" in ends and not os.path.exists("/dev/full"):
        pytest.skip("there is no device that is full")
    make_topic(bootstrap, name)
    told(produce, bootstrap, name, lines=b"x")
    command = f'exec "$0" -m tallystick {words} "$1" --bootstrap-server "$2" {ends}'
    shell = ["sh", "-c", command, sys.executable, name, bootstrap]
    done = subprocess.run(shell, stderr=subprocess.PIPE, timeout=60, check=False)
    assert (done.returncode, done.stderr.decode()) == (1, f"tallystick: {sentence}\n")


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="there are no terminals here")
def test_a_terminal_is_told_nothing_that_it_obeys(bootstrap: str, name: str) -> None:
    make_topic(bootstrap, name)
    told(produce, bootstrap, name, lines=b"\x1b[2J\xff\n")
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "tallystick", "consume", name, "--bootstrap-server", bootstrap]
    shown: list[bytes] = []
    reader = threading.Thread(target=lambda: shown.append(os.read(ours, 1000)))
    reader.start()
    subprocess.run(command, stdout=theirs, timeout=60, check=True)
    reader.join()
    os.close(theirs)
    os.close(ours)
    assert shown == [b"\\x1b[2J\\xff\r\n"]


@pytest.mark.parametrize(
    ("command", "arguments", "words"),
    [
        (produce, ("--acks", "0", "--transactional-id", "x"), "needs --acks all"),
        (produce, ("--json", "--headers"), "have their keys"),
        (produce, ("--header", "x"), "NAME=VALUE"),
        (produce, ("--header", "\udcff=x"), "are UTF-8"),
        (produce, ("--transaction-timeout", "soon"), "no duration"),
        (produce, ("--key-separator", ""), "not empty"),
        (consume, ("--from", "soon"), "no offset"),
        (consume, ("--until", "soon"), "no offset"),
        (consume, ("--follow", "--until", "end"), "either"),
        (consume, ("--where", "price = 1"), "there is price"),
        (consume, ("--where", "value ~ '\udcff'"), "for --where"),
        (consume, ("--template", "{price}"), "no field"),
        (consume, ("--format", "template"), "needs --template"),
        (consume, ("--json", "--format", "hex"), "one of"),
        (consume, ("--json", "--key-separator", ":"), "for --format text"),
        (tail, ("--max", "0"), "--max"),
    ],
)
def test_what_cannot_be_meant(command: click.Command, arguments: tuple[str, ...], words: str) -> None:
    done = CliRunner().invoke(command, ["t", *arguments, "--bootstrap-server", "localhost:1"])
    assert done.exit_code == 2 and words in done.output, done.output


def test_what_is_not_there(bootstrap: str, name: str) -> None:
    make_topic(bootstrap, name)
    assert "UNKNOWN_TOPIC" in told(consume, bootstrap, f"{name}-77", status=1)[1]
    for command, word in ((consume, "\udcff"), (produce, "\udcff")):
        assert "is no UTF-8" in told(command, bootstrap, word, status=1)[1]
    assert "is no UTF-8" in told(consume, bootstrap, name, "--group", "\udcff", status=1)[1]
    assert "has no partition 7" in told(produce, bootstrap, name, "--partition", "7", lines=b"x", status=1)[1]
    assert "no JSON" in told(produce, bootstrap, name, "--json", lines=b"x", status=1)[1]
    assert told(produce, bootstrap, name, "--transactional-id", name)[1] == f"Committed 0 records into {name}.\n"
    assert values(bootstrap, name) == []
