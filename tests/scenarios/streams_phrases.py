"""Short forms of what a member of a streams group says (KIP-1071).

StreamsGroupHeartbeat g member_id=A joins=["0: t u > r + cl ~t,u" "1: (r) (s=4)"] topology_epoch=3
StreamsGroupHeartbeat has=[0-1] keeps=[0-0] at=host:80, or: leaves

A subtopology reads topics and (repartition topics), or topics that fit /an.expression, writes what is behind >, keeps
changelogs behind +, and ~ wants as many partitions of some of them. An internal topic may say how many partitions,
settings and copies it is to have: `cl=3:retention.ms=5*1`.
"""

from typing import Any

from tests.scenarios.normalise import Names
from tests.scenarios.requests import Literal, value_of

Said = dict[str, Any]


def streams_heartbeat(words: list[str], said: Said, version: int, names: Names) -> Said:
    """The fields of the request."""
    group = {"group_id": value_of(names, words[0])} if words and words[0] != "leaves" else {}
    if "leaves" in words:
        return {**group, **said, "member_epoch": -1}
    if "joins" in said:
        topology = {"epoch": said.pop("topology_epoch", 0)}
        topology["subtopologies"] = [subtopology(str(one), names) for one in said.pop("joins")]
        first = {"member_epoch": 0, "rebalance_timeout_ms": 60_000, "topology": topology, "client_tags": []}
        process = {"process_id": Literal(f"process-{said.get('member_id', '')}")}
        said = first | process | {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []} | said
    if "has" in said or "keeps" in said:
        said["active_tasks"] = task_ids(said.pop("has", []))
        said["standby_tasks"], said["warmup_tasks"] = task_ids(said.pop("keeps", [])), []
    if "at" in said:
        host, _, port = str(said.pop("at")).partition(":")
        said["user_endpoint"] = {"host": Literal(host), "port": int(port)}
    return {**group, **said}


def task_ids(words: list[Any]) -> list[Said]:
    tasks: dict[str, list[int]] = {}
    for word in words:
        subtopology_id, _, index = str(word).rpartition("-")
        tasks.setdefault(subtopology_id, []).append(int(index))
    return [{"subtopology_id": Literal(one), "partitions": of} for one, of in tasks.items()]


def subtopology(text: str, names: Names) -> Said:
    subtopology_id, _, rest = text.partition(":")
    read: dict[str, list[str]] = {"": [], "(": [], ">": [], "+": [], "~": [], "/": []}
    kind = ""
    for word in rest.split():
        if word in ("+", ">"):
            kind = word
        else:
            read[word[0] if word[0] in "(~/" else kind].append(word.strip("()~"))
    repartition = [_topic(word, names) for word in read["("]]
    order = [one["name"] for one in repartition]
    return {
        "subtopology_id": Literal(subtopology_id),
        "source_topics": [Literal(names.unique(name)) for name in read[""]],
        "source_topic_regex": [Literal(word[1:]) for word in read["/"]],
        "state_changelog_topics": [_topic(word, names) for word in read["+"]],
        "repartition_sink_topics": [Literal(names.unique(name)) for name in read[">"]],
        "repartition_source_topics": repartition,
        "copartition_groups": [
            {
                "source_topics": [read[""].index(name) for name in word.split(",") if name in read[""]],
                "source_topic_regex": [read["/"].index(name) for name in word.split(",") if name in read["/"]],
                "repartition_source_topics": [
                    order.index(names.unique(name)) for name in word.split(",") if names.unique(name) in order
                ],
            }
            for word in read["~"]
        ],
    }


def _topic(word: str, names: Names) -> Said:
    word, _, copies = word.partition("*")
    head, *configs = word.split(":")
    name, _, count = head.partition("=")
    return {
        "name": Literal(names.unique(name)),
        "partitions": int(count or 0),
        "replication_factor": int(copies or 0),
        "topic_configs": [
            {"key": Literal(key), "value": Literal(value)} for key, _, value in (one.partition("=") for one in configs)
        ],
    }
