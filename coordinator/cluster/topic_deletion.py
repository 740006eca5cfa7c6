"""Deleting topics: each entry of a request is decided on its own, and every entry is answered. Pure, and planned as a
whole first, as creating and growing them is (`coordinator.cluster.topics`).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from coordinator.cluster.image import ClusterImage
from coordinator.cluster.records import RemoveTopicRecord
from coordinator.cluster.topic_rules import Refused
from coordinator.cluster.topics import NO_ID, TWICE, Decided, Planned, Rules, never_spent
from protocol.errors import ErrorCode
from protocol.internal_topics import INTERNAL_TOPICS
from protocol.messages.topics import DeletableTopicResult, DeleteTopicState


def plan_deletion(image: ClusterImage, topics: Sequence[DeleteTopicState]) -> list[Planned[DeleteTopicState]]:
    """The entries of a DeleteTopics, by name or by id. A topic that is named twice is refused, and answered once, with
    its name and its id if it was named by both."""
    names = [_name_of(image, state) for state in topics]
    ids = {name: state.topic_id for state, name in zip(topics, names, strict=True) if state.name is None}
    by_name = {state.name for state in topics}
    counts = Counter(names)
    planned: list[Planned[DeleteTopicState]] = []
    answered: set[str] = set()
    for state, name in zip(topics, names, strict=True):
        if name is None or counts[name] == 1:
            planned.append(Planned(state))
        elif name not in answered:
            answered.add(name)
            both = name in ids and name in by_name
            named = DeleteTopicState(name=name, topic_id=ids[name]) if both else state
            planned.append(Planned(named, TWICE))
    return planned


def delete(
    image: ClusterImage,
    topics: Iterable[Planned[DeleteTopicState]],
    rules: Rules,
    decided: Decided,
    spent: Callable[[], bool] = never_spent,
) -> list[DeletableTopicResult]:
    """Decide a DeleteTopics, one entry at least."""
    results: list[DeletableTopicResult] = []
    for planned in topics:
        state = planned.entry
        try:
            if planned.refused is not None:
                raise planned.refused
            results.append(_delete_one(image, state, rules, decided))
        except Refused as refused:
            results.append(
                DeletableTopicResult(
                    name=state.name, topic_id=state.topic_id, error_code=refused.error, error_message=refused.message
                )
            )
        if spent():
            break
    return results


def _name_of(image: ClusterImage, state: DeleteTopicState) -> str | None:
    if state.name is not None:
        return state.name if state.topic_id == NO_ID else None
    found = image.by_id.get(state.topic_id)
    return None if found is None else found.name


def _delete_one(image: ClusterImage, state: DeleteTopicState, rules: Rules, decided: Decided) -> DeletableTopicResult:
    if state.name is not None and state.topic_id != NO_ID:
        raise Refused(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if state.name is None and state.topic_id == NO_ID:
        raise Refused(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if not rules.deletion_enabled:
        raise Refused(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
    if state.name is None:
        topic = image.by_id.get(state.topic_id)
        if topic is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    else:
        topic = image.topics.get(state.name)
        if topic is None:
            message = "This server does not host this topic-partition."
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
    if topic.name in INTERNAL_TOPICS:
        message = f"{topic.name} is internal: its coordinators are running on it."
        raise Refused(ErrorCode.INVALID_REQUEST, message)
    decided.records.append(RemoveTopicRecord(topic_id=topic.topic_id))
    return DeletableTopicResult(name=topic.name, topic_id=topic.topic_id)
