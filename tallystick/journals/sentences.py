"""What a journal says, as people read it: a line for an event, its time before it."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from tallystick.durations import in_words
from tallystick.written import counted

Said = Mapping[str, Any]
WHOSE = "Which client that is, a Tallystick with an HTTP side tells: `--http http://HOST:PORT`."
"""What is said where an open transaction was found by Kafka's protocol alone."""
FEW = 6
"""Partitions that a line names."""


def clock(at_ms: int) -> str:
    """`00:06:34.125`, in UTC."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%H:%M:%S.") + f"{at_ms % 1000:03d}"


def moment(at_ms: int) -> str:
    """With its day."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d ") + clock(at_ms) + " UTC"


def name_of(client: Said) -> str:
    """Who, from where, with which software (KIP-511)."""
    software = "" if client["software"] == "unknown" else f", {client['software']} {client['version']}"
    user = "" if client["principal"] == "User:ANONYMOUS" else f", {client['principal']}"
    return f"client {client['clientId']!r} at {client['host']}:{client['port']}{software}{user}"


def beginning(said: Said) -> str:
    """What the answer can know."""
    since = f"The journal begins at {moment(said['began'])}, when the broker started"
    if not said["known"]:
        return f"{since}; it knows nothing of transactional id {said['transactionalId']!r}."
    if said.get("dropped"):
        return f"{since}; {said['dropped']} older events of this id were dropped from it."
    return f"{since}."


def timeline_lines(said: Said) -> Iterator[tuple[str, str]]:
    """The events, each with its kind: `request`, `state`, `records`, `markers`, `error`, `head`."""
    yield "head", beginning(said)
    for number, client in enumerate(said["clients"]):
        yield "head", f"  [{number}] {name_of(client)}"
    day = ""
    for event in said["events"]:
        if (today := moment(event["at"])[:10]) != day:
            day = today
            yield "head", f"{day} (UTC)"
        kind, line = _event(event)
        yield kind, f"{clock(event['at'])}  {line}"


def _event(event: Said) -> tuple[str, str]:
    kind = event["is"]
    if kind == "state":
        identity = f"producer {event['producerId']}:{event['epoch']}"
        held = f", {counted(event['partitions'], 'partition')}" if event["partitions"] else ""
        return "state", f"    {event['state']}  {identity}{held}  ({event['because']})"
    if kind == "records":
        where = "other partitions" if event["topic"] is None else f"{event['topic']}-{event['partition']}"
        what = f"Produce v{event['version']} {where}  {_counted(event)}"
        if event["error"] != "NONE":
            return (
                "error",
                f"[{event['client']}] {what}  producer {event['producerId']}:{event['epoch']} -> {event['error']}",
            )
        return "records", f"[{event['client']}] {what}  offsets {event['baseOffset']} to {event['lastOffset']}"
    if kind == "markers":
        what = "COMMIT" if event["commit"] else "ABORT"
        places = [f"{topic}-{index}" + (f"@{at}" if at >= 0 else "") for topic, index, at in event["places"]]
        by = "  (by an operator)" if event["byOperator"] else ""
        error = "" if event["error"] == "NONE" else f" -> {event['error']}"
        return "error" if error else "markers", f"    {what} markers  {_some(places, event['count'])}{by}{error}"
    return _request(event)


def _request(event: Said) -> tuple[str, str]:
    asked = f"[{event['client']}] {event['api']} v{event['version']} {_asks(event)}".rstrip()
    if event["answeredAt"] is None:
        return "request", f"{asked} -> not answered yet"
    gives = event["gives"]
    identity = f" producer {gives['producerId']}:{gives['epoch']}" if gives else ""
    took = in_words(event["answeredAt"] - event["at"])
    kind = "request" if event["error"] == "NONE" else "error"
    return kind, f"{asked} -> {event['error']}{identity}  ({took})"


def _asks(event: Said) -> str:
    says = event["says"]
    parts = []
    if "commit" in says:
        parts.append("commit" if says["commit"] else "abort")
    if "group" in says:
        parts.append(f"group {says['group']!r}")
    if "timeoutMs" in says:
        parts.append(f"timeout {says['timeoutMs']} ms")
    if says.get("places"):
        places = [f"{topic}-{index}" + "".join(f"={more}" for more in rest) for topic, index, *rest in says["places"]]
        parts.append(_some(places, says.get("count", len(places))))
    if says.get("generation", -1) >= 0:
        parts.append(f"generation {says['generation']}")
    if says.get("producerId", -1) >= 0:
        parts.append(f"as producer {says['producerId']}:{says['epoch']}")
    return ", ".join(parts)


def _some(places: Sequence[str], count: int) -> str:
    more = count - min(len(places), FEW)
    return ", ".join(places[:FEW]) + (f" and {more} more" if more > 0 else "")


def _counted(event: Said) -> str:
    records, batches = counted(event["records"], "record"), counted(event["batches"], "batch", "batches")
    return f"{records} in {batches}, {event['bytes']} bytes"


def fence_lines(said: Said) -> Iterator[str]:
    """Who raised the epoch, and who was turned away for it."""
    yield beginning(said)
    clients = said["clients"]
    raised = [one for one in said["raised"] if one["because"] != "a new id"]
    if said["known"] and not raised:
        yield "Nobody has raised its epoch since then."
    for one in raised:
        yield f"{moment(one['at'])}: {_raising(one, clients)}"
    for one in said["refused"]:
        times = "" if one["times"] == 1 else f", {one['times']} times until {clock(one['until'])}"
        producer = f"producer {one['claimed'][0]}:{one['claimed'][1]}"
        yield (
            f"{moment(one['at'])}: turned away with {one['error']}: {one['api']} of {name_of(clients[one['client']])}, "
            f"as {producer}{times}."
        )
    if raised and not said["refused"]:
        yield "Nobody was turned away since then."


REASONS = {
    "InitProducerId over an open transaction": "a new instance asked for the id over the open transaction, which was "
    "aborted (InitProducerId)",
    "InitProducerId, the next epoch": "InitProducerId",
    "InitProducerId, a new producer id, epoch 0": "InitProducerId; the epochs of the producer id before were used up",
    "timed out": "the transaction was open for longer than its transaction.timeout.ms, and the broker aborted it",
    "aborted by an operator": "an operator aborted the transaction",
    "all markers are written": "the epochs of the producer id before were used up",
}


def _raising(one: Said, clients: Sequence[Said]) -> str:
    before = "" if one["from"] is None else f"from {one['from'][0]}:{one['from'][1]} "
    after = f"{before}to {one['to'][0]}:{one['to'][1]}"
    if one["own"]:
        times = "" if one["times"] == 1 else f" ({one['times']} transactions, the last then)"
        return f"raised {after} by its own producer, which ended a transaction{times}."
    by = "" if one["client"] is None else f", by {name_of(clients[one['client']])}"
    return f"raised {after}: {REASONS.get(one['because'], one['because'])}{by}."


def lint_lines(said: Said) -> Iterator[str]:
    """A finding is two lines: what is done, and what to change."""
    yield f"{counted(said['clients'], 'client')} since {moment(said['began'])}, when the broker started."
    if not said["findings"]:
        yield "Nothing is to be changed in what they do."
    for one in said["findings"]:
        who = "" if one["client"] is None else f" ({name_of(one['client'])})"
        yield f"{one['costs']}, {one['rule']}{who}: {one['says']}"
        yield f"  To change: {one['change']}"
