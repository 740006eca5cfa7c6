"""Short forms of what is said of share groups (KIP-932).

ShareGroupHeartbeat g member_id=A joins=[t]      ShareGroupHeartbeat leaves
ShareFetch t-0 t-1:0-4=accept forget=[t-2]       ShareAcknowledge t-0:0-3=accept,gap,release,reject t-0:5=renew
InitializeShareGroupState g t-0=5                ReadShareGroupState g t-0
WriteShareGroupState g t-0:0-4=acknowledged*1    DescribeShareGroupOffsets g t-0, or: g everything
AlterShareGroupOffsets g t-0=3                   FindCoordinator share g t-0

Behind `t-0:` stand offsets, and what is said of all of them or of each; numbers are sent as they are.
"""

from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import Any

from tests.scenarios.normalise import Names
from tests.scenarios.requests import Literal, value_of

Said = dict[str, Any]
TYPES = {"gap": 0, "accept": 1, "release": 2, "reject": 3, "renew": 4}
STATES = {"available": 0, "acquired": 1, "acknowledged": 2, "archived": 4}
WANTS_NOTHING = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}


def heartbeat(words: list[str], said: Said, version: int, names: Names) -> Said:
    """The fields of the request."""
    group = {"group_id": value_of(names, words[0])} if words and words[0] != "leaves" else {}
    if "leaves" in words:
        return {**group, **said, "member_epoch": -1}
    if "joins" in said:
        said = {"member_epoch": 0, "subscribed_topic_names": said.pop("joins")} | said
    if said.get("subscribed_topic_names"):
        said["subscribed_topic_names"] = [Literal(names.unique(name)) for name in said["subscribed_topic_names"]]
    return {**group, **said}


def place(word: str) -> tuple[str, int]:
    topic, _, index = word.rpartition("-")
    return topic, int(index)


def grouped(words: list[str], make: Callable[[int, list[str]], Said], name: str = "topic_id") -> list[Said]:
    """Words such as t-0:1-2=x as topics; `make` gets a partition and what is said of it, word for word."""
    found: dict[tuple[str, int], list[str]] = {}
    for word in words:
        where, _, rest = word.partition(":") if ":" in word else word.partition("=")
        found.setdefault(place(where), []).extend([rest] if rest else [])
    topics: dict[str, list[Said]] = {}
    for (topic, index), rests in found.items():
        topics.setdefault(topic, []).append(make(index, rests))
    return [{name: topic, "partitions": partitions} for topic, partitions in topics.items()]


def spoken(index: int, rests: list[str]) -> Said:
    """What a member says of the records of a partition."""
    batches = []
    for rest in rests:
        first, last, kinds = span(rest)
        types = [TYPES[kind] if kind in TYPES else int(kind) for kind in kinds.split(",") if kind]
        batches.append({"first_offset": first, "last_offset": last, "acknowledge_types": types})
    return {"partition_index": index, "acknowledgement_batches": batches}


def span(text: str) -> tuple[int, int, str]:
    offsets, _, rest = text.partition("=")
    first, _, last = offsets.partition("-")
    return int(first), int(last or first), rest


def fetch(words: list[str], said: Said, version: int, names: Names) -> Said:
    """Only what renews says `renews`: it wants no records."""
    if "renews" in words:
        words, said = [word for word in words if word != "renews"], {**WANTS_NOTHING, "is_renew_ack": True, **said}
    forgotten = [str(word) for word in said.pop("forget", [])]
    topics: dict[str, list[int]] = {}
    for topic, index in map(place, forgotten):
        topics.setdefault(topic, []).append(index)
    said["forgotten_topics_data"] = [{"topic_id": topic, "partitions": of} for topic, of in topics.items()]
    return {**said, "topics": grouped(words, spoken)}


def acknowledge(words: list[str], said: Said, version: int, names: Names) -> Said:
    if "renews" in words:
        words, said = [word for word in words if word != "renews"], {"is_renew_ack": True, **said}
    return {**said, "topics": grouped(words, spoken)}


def of_state(*fields: str, start: bool = False) -> Callable[[list[str], Said, int, Names], Said]:
    """`fields` are those of each partition, the same for all; with `start`, `t-0=5` says where it begins."""

    def fill(words: list[str], said: Said, version: int, names: Names) -> Said:
        each = {name: said.pop(name) for name in fields if name in said}

        def one(index: int, rests: list[str]) -> Said:
            begins = {"start_offset": int(rests[0])} if start and rests else {}
            return {"partition": index, "state_epoch": 0, "leader_epoch": 0, "start_offset": 0, **each, **begins}

        topics = grouped(words[1:], lambda index, rests: _only(one(index, rests), fields, start=start))
        return {**said, "group_id": value_of(names, words[0]), "topics": topics}

    return fill


def _only(values: Said, fields: tuple[str, ...], *, start: bool) -> Said:
    wanted = {"partition", *fields, *(("start_offset",) if start else ())}
    return {name: value for name, value in values.items() if name in wanted}


def write_state(words: list[str], said: Said, version: int, names: Names) -> Said:
    fields = ("state_epoch", "leader_epoch", "start_offset", "delivery_complete_count")
    each = {"state_epoch": 0, "leader_epoch": 0, "start_offset": -1, "delivery_complete_count": -1}
    each |= {name: said.pop(name) for name in fields if name in said}

    def one(index: int, rests: list[str]) -> Said:
        batches = []
        for rest in rests:
            first, last, what = span(rest)
            state, _, count = what.partition("*")
            delivery = {"delivery_state": STATES.get(state, state), "delivery_count": int(count or 1)}
            batches.append({"first_offset": first, "last_offset": last} | delivery)
            batches[-1]["delivery_state"] = int(batches[-1]["delivery_state"])
        return {"partition": index, **each, "state_batches": batches}

    return {**said, "group_id": value_of(names, words[0]), "topics": grouped(words[1:], one)}


def describe_offsets(words: list[str], said: Said, version: int, names: Names) -> Said:
    if "groups" in said:
        return said
    topics: list[Said] | None = None
    if words[1:] != ["everything"]:
        topics = [
            {"topic_name": Literal(names.unique(topic["topic_name"])), "partitions": topic["partitions"]}
            for topic in grouped(words[1:], lambda index, _: index, "topic_name")  # type: ignore[arg-type,return-value]
        ]
    return {**said, "groups": [{"group_id": value_of(names, words[0]), "topics": topics}]}


def alter_offsets(words: list[str], said: Said, version: int, names: Names) -> Said:
    make = lambda index, rests: {"partition_index": index, "start_offset": int(rests[0])}  # noqa: E731
    return {**said, "group_id": value_of(names, words[0]), "topics": grouped(words[1:], make, "topic_name")}


def delete_offsets(words: list[str], said: Said, version: int, names: Names) -> Said:
    topics = [{"topic_name": value_of(names, word)} for word in words[1:]]
    return {**said, "group_id": value_of(names, words[0]), "topics": topics}


def coordinator_keys(words: list[str], names: Names) -> list[Literal]:
    """`g t-0`: group, topic id and partition; what stands in quotes is sent as it is."""
    if words[0].startswith('"'):
        return [Literal(word[1:-1]) for word in words]
    keys = []
    for topic, index in map(place, words[1:]):
        topic_id = urlsafe_b64encode(names.id_of_topic(topic)).decode().rstrip("=")
        keys.append(Literal(f"{names.unique(words[0])}:{topic_id}:{index}"))
    return keys


SHARE_PHRASES: dict[str, Callable[[list[str], Said, int, Names], Said]] = {
    "ShareGroupHeartbeat": heartbeat,
    "ShareFetch": fetch,
    "ShareAcknowledge": acknowledge,
    "InitializeShareGroupState": of_state("state_epoch", start=True),
    "ReadShareGroupState": of_state("leader_epoch"),
    "WriteShareGroupState": write_state,
    "DeleteShareGroupState": of_state(),
    "ReadShareGroupStateSummary": of_state("leader_epoch"),
    "DescribeShareGroupOffsets": describe_offsets,
    "AlterShareGroupOffsets": alter_offsets,
    "DeleteShareGroupOffsets": delete_offsets,
}
