"""A timeline, told as a scenario that does the same again: the language of tests/scenarios, with what is answered below
each step.

Names are made up (`tx`, `t1`, `g1`, alice), and stand with what they are for in the head. A story begins with an id
that nobody has had: where the timeline begins later, the identities are counted from the first one it knows. What a
story cannot do again is left out, with a remark: answers that were a matter of time, members of groups, what came
before.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Said = Mapping[str, Any]
NAMES = ("alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi")
MOST_VALUES = 5
"""Records of a batch; more are told as so many."""
LATEST = {"Produce": 12, "TxnOffsetCommit": 5}
"""Versions from here on name topics by their ids, which a story gives anew."""
LOG_START_SINCE = 5
LEVEL_SINCE = 2
"""The WriteTxnMarkers of KIP-1228."""
GIVES_SINCE = 5
"""The EndTxn that gives an identity."""
A_MATTER_OF_TIME = frozenset(
    {
        *("CONCURRENT_TRANSACTIONS", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"),
        *("NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS", "KAFKA_STORAGE_ERROR", "UNKNOWN_SERVER_ERROR"),
        *("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "FENCED_INSTANCE_ID", "STALE_MEMBER_EPOCH"),
        *("OPERATION_NOT_ATTEMPTED", "UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID"),
    }
)
TOLD = frozenset(
    {"NONE", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_TXN_STATE", "INVALID_PRODUCER_ID_MAPPING"}
)
NOT_ASKED = "Kafka is not asked: it is told as it happened on this broker."
"""Answers of Kafka stand beside stories that it was asked; it was not asked this one."""
SLACK_MS = 1000
"""How much longer than its timeout a story waits for a transaction to be aborted."""


def _from_a_beginning(said: Said) -> list[Said]:
    """The events without the rest of a transaction whose beginning had to go."""
    events: list[Said] = said["events"]
    for position, event in enumerate(events if said["dropped"] else ()):
        state = event["state"] if event["is"] == "state" else ""
        if state.startswith("Complete"):
            return events[position + 1 :] or events
        if state in ("Empty", "Ongoing"):
            break
    return events


class CannotBeTold(Exception):
    """There is no story in it, in a sentence."""


def scenario_of(said: Said) -> str:
    """The text of a scenario file. Raises `CannotBeTold`."""
    if not said["events"]:
        raise CannotBeTold(f"nothing is known of transactional id {said['transactionalId']!r} that could be told")
    return _Story({**said, "events": _from_a_beginning(said)}).text()


@dataclass(slots=True)
class _Actor:
    """A client of the story, and the identity that it remembers as the language has it."""

    name: str
    identity: tuple[int, int] | None = None


@dataclass(slots=True)
class _Story:
    said: Said
    steps: list[str] = field(default_factory=list)
    actors: dict[Any, _Actor] = field(default_factory=dict)
    topics: dict[str, str] = field(default_factory=dict)
    partitions: dict[str, int] = field(default_factory=dict)
    groups: dict[str, str] = field(default_factory=dict)
    ends: dict[tuple[str, int], int] = field(default_factory=dict)
    """What the story has written into each partition."""
    dirty: dict[tuple[str, int], None] = field(default_factory=dict)
    """Partitions that get a marker when the transaction ends."""
    producers: dict[int, str] = field(default_factory=dict)
    base: int = 0
    first: int = -1

    def text(self) -> str:
        self._find_beginning()
        for event in self.said["events"]:
            tell = {"request": self._request, "records": self._records, "state": self._state}.get(
                event["is"], self._marked
            )
            self.steps += tell(event)
        names = {f"{short} is {long!r}" for long, short in (*self.topics.items(), *self.groups.items())}
        level = min(self.said.get("transactionVersion", 2), 2)
        head = [
            "=== What happened to a transactional id",
            f"Here tx is {self.said['transactionalId']!r}" + "".join(f", {name}" for name in sorted(names)) + ".",
            f"with transaction.version {0 if level < 2 else 2}",
            NOT_ASKED,
            "",
        ]
        made = [f"topic {short} partitions={self.partitions[long] + 1}" for long, short in self.topics.items()]
        return "\n".join([*head, *made, *self.steps]) + "\n"

    # -- identities ------------------------------------------------------------------------------------------

    def _find_beginning(self) -> None:
        """The identity that the story's first InitProducerId gives stands for the first that the timeline knows."""
        events = self.said["events"]
        named = [pair for event in events if (pair := _identity(event)) is not None]
        if not named:
            raise CannotBeTold("no request in it has an identity")
        self.first = named[0][0]
        self.base = min(epoch for producer_id, epoch in named if producer_id == self.first)
        given = events[0]["gives"] if events[0]["is"] == "request" else {}
        if given.get("producerId") != self.first or given["epoch"] != self.base:
            owner = next((event for event in events if "client" in event), None)
            actor = _Actor(NAMES[0]) if owner is None else self._actor(owner["client"])
            timeout = next((event["timeoutMs"] for event in events if event["is"] == "state"), 60_000)
            self.steps += ["# What came before is not known: an id that is new stands for it.", ""]
            self.steps.append(f"{actor.name} InitProducerId v4 tx timeout={timeout}")
            self.steps.append(f"    => NONE producer_id={self._producer(self.first)} producer_epoch=0")
            actor.identity = self.first, 0

    def _epoch(self, producer_id: int, epoch: int) -> int:
        return epoch - self.base if producer_id == self.first else epoch

    def _producer(self, producer_id: int) -> str:
        return self.producers.setdefault(producer_id, f"P{len(self.producers) + 1}")

    def _actor(self, client: int) -> _Actor:
        who = self.said["clients"][client]
        key = tuple(who[part] for part in ("clientId", "host", "software", "version", "principal"))
        number = len(self.actors)
        return self.actors.setdefault(key, _Actor(NAMES[number] if number < len(NAMES) else f"client{number}"))

    def _as(self, actor: _Actor, producer_id: int, epoch: int) -> str:
        """What a step says of the identity, where the client of the story remembers another."""
        told = producer_id, self._epoch(producer_id, epoch)
        if actor.identity == told:
            return ""
        return f" transactional_id=tx producer_id={self._producer(producer_id)} epoch={told[1]}"

    def _is_known(self, says: Said) -> bool:
        """Whether an identity was given in the story, so that it can be said."""
        return says["producerId"] in self.producers and self._epoch(says["producerId"], says["epoch"]) >= 0

    # -- names -----------------------------------------------------------------------------------------------

    def _place(self, topic: str, index: int) -> str:
        short = self.topics.setdefault(topic, f"t{len(self.topics) + 1}")
        self.partitions[topic] = max(index, self.partitions.get(topic, 0))
        return f"{short}-{index}"

    def _group(self, name: str) -> str:
        return self.groups.setdefault(name, f"g{len(self.groups) + 1}")

    # -- events ----------------------------------------------------------------------------------------------

    def _state(self, event: Said) -> Iterator[str]:
        if event["because"] == "timed out" and event["state"] == "PrepareAbort":
            yield f"advance time {event['timeoutMs'] + SLACK_MS} ms"
            yield "wait until tx is CompleteAbort"
        if event["state"] in ("CompleteCommit", "CompleteAbort"):
            for place in self.dirty:
                self.ends[place] = self.ends.get(place, 0) + 1
            self.dirty = {}

    def _marked(self, event: Said) -> Iterator[str]:
        """Those of the coordinator are counted when the transaction has ended; of an operator each by itself."""
        if event["byOperator"] and event["error"] == "NONE":
            for topic, index, _ in event["places"]:
                self.ends[topic, index] = self.ends.get((topic, index), 0) + 1
        return iter(())

    def _records(self, event: Said) -> Iterator[str]:
        if event["topic"] is None or event["error"] not in TOLD or not self._is_known(event):
            yield f"# A Produce that was answered {event['error']} is left out."
            return
        actor, place = self._actor(event["client"]), (event["topic"], event["partition"])
        where, version = self._place(*place), min(event["version"], LATEST["Produce"])
        count = min(event["records"], MOST_VALUES)
        if (event["records"], event["batches"]) != (count, 1):
            yield f"# So many records and batches were there: {event['records']}, {event['batches']}."
        values = " ".join("abcde"[:count]) or "a"
        yield f"{actor.name} Produce v{version} {where} {values}{self._as(actor, event['producerId'], event['epoch'])}"
        if event["error"] != "NONE":
            message = ' error_message="…"' if event["error"] == "INVALID_TXN_STATE" and version >= 8 else ""
            yield f"    => {where} {event['error']} base_offset=-1{message}"
            return
        begins = " log_start_offset=0" if version >= LOG_START_SINCE else ""
        yield f"    => {where} NONE base_offset={self.ends.get(place, 0)}{begins}"
        self.ends[place] = self.ends.get(place, 0) + count
        self.dirty[place] = None

    def _request(self, event: Said) -> Iterator[str]:
        api, error = event["api"], event["error"]
        tell = {
            "InitProducerId": self._init,
            "AddPartitionsToTxn": self._add_partitions,
            "AddOffsetsToTxn": self._add_offsets,
            "TxnOffsetCommit": self._commit_offsets,
            "EndTxn": self._end,
            "WriteTxnMarkers": self._markers,
        }[api]
        says = event["says"]
        if error is None or error in A_MATTER_OF_TIME or error not in TOLD:
            yield f"# {api} that was answered {error or 'nothing'} is left out."
        elif says["producerId"] >= 0 and not self._is_known(says):
            yield f"# {api} of an identity from before is left out."
        else:
            yield from tell(event, self._actor(event["client"]))

    def _init(self, event: Said, actor: _Actor) -> Iterator[str]:
        says, gives = event["says"], event["gives"]
        claimed = ""
        if says["producerId"] >= 0:
            epoch = self._epoch(says["producerId"], says["epoch"])
            claimed = f" producer_id={self._producer(says['producerId'])} epoch={epoch}"
        until = " until NONE" if event["error"] == "NONE" else ""
        yield f"{actor.name} InitProducerId v{event['version']} tx timeout={says['timeoutMs']}{claimed}{until}"
        if event["error"] != "NONE":
            yield f"    => {event['error']} producer_epoch=-1"
            return
        actor.identity = gives["producerId"], self._epoch(gives["producerId"], gives["epoch"])
        yield f"    => NONE producer_id={self._producer(gives['producerId'])} producer_epoch={actor.identity[1]}"

    def _add_partitions(self, event: Said, actor: _Actor) -> Iterator[str]:
        says = event["says"]
        if event["version"] > 3 or says["count"] > len(says["places"]):
            yield "# An AddPartitionsToTxn of a broker, or of very many partitions, is left out."
            return
        places = sorted({self._place(topic, index) for topic, index in says["places"]})
        identity = self._as(actor, says["producerId"], says["epoch"])
        yield f"{actor.name} AddPartitionsToTxn v{event['version']} {' '.join(places)}{identity}"
        for number, place in enumerate(places):
            yield f"    {'=>' if not number else '  '} {place} {event['error']}"
        if event["error"] == "NONE":
            self.dirty |= dict.fromkeys((topic, index) for topic, index in says["places"])

    def _add_offsets(self, event: Said, actor: _Actor) -> Iterator[str]:
        says = event["says"]
        identity = self._as(actor, says["producerId"], says["epoch"])
        yield f"{actor.name} AddOffsetsToTxn v{event['version']} {self._group(says['group'])}{identity}"
        yield f"    => {event['error']}"

    def _commit_offsets(self, event: Said, actor: _Actor) -> Iterator[str]:
        says = event["says"]
        if not says["places"] or says["count"] > len(says["places"]):
            yield "# A TxnOffsetCommit of no partition, or of very many, is left out."
            return
        if says["generation"] >= 0:
            yield f"# It named generation {says['generation']} of the group; here the group has no members."
        version = min(event["version"], LATEST["TxnOffsetCommit"])
        offsets = {self._place(topic, index): offset for topic, index, offset in says["places"]}
        words = " ".join(f"{place}={offset}" for place, offset in sorted(offsets.items()))
        identity = self._as(actor, says["producerId"], says["epoch"])
        yield f"{actor.name} TxnOffsetCommit v{version} {words} group_id={self._group(says['group'])}{identity}"
        for number, place in enumerate(sorted(offsets)):
            yield f"    {'=>' if not number else '  '} {place} {event['error']}"

    def _end(self, event: Said, actor: _Actor) -> Iterator[str]:
        says, gives = event["says"], event["gives"]
        what = "commit" if says["commit"] else "abort"
        identity = self._as(actor, says["producerId"], says["epoch"])
        yield f"{actor.name} EndTxn v{event['version']} {what}{identity}"
        if event["error"] != "NONE" or event["version"] < GIVES_SINCE:
            yield f"    => {event['error']}"
            return
        actor.identity = gives["producerId"], self._epoch(gives["producerId"], gives["epoch"])
        yield f"    => NONE producer_id={self._producer(gives['producerId'])} producer_epoch={actor.identity[1]}"

    def _markers(self, event: Said, actor: _Actor) -> Iterator[str]:
        says = event["says"]
        what = "commit" if says["commit"] else "abort"
        places = sorted({self._place(topic, index) for topic, index in says["places"]})
        producer, epoch = self._producer(says["producerId"]), self._epoch(says["producerId"], says["epoch"])
        version = f"v{event['version']} {what} {' '.join(places)}"
        level = f" transaction_version={says['level']}" if event["version"] >= LEVEL_SINCE else ""
        yield f"{actor.name} WriteTxnMarkers {version} producer_id={producer} producer_epoch={epoch}{level}"
        yield f"    => producer_id={producer}"
        for place in places:
            yield f"         {place} {event['error']}"


def _identity(event: Said) -> tuple[int, int] | None:
    """The first that an event names: one that is claimed, or was given."""
    holder = event.get("says", event)
    if holder.get("producerId", -1) < 0:
        holder = event.get("gives", {})
    return (holder["producerId"], holder["epoch"]) if holder.get("producerId", -1) >= 0 else None
