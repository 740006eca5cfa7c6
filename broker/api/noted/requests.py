"""Handlers whose requests and answers are noted in the journal: of transactions all, of groups what `advice` needs.

The handler runs step by step, so that a record that the coordinator writes meanwhile is known to be its doing
(`Journal.current`). Whatever is written without one is the broker's own: a timeout, the end of the markers. Produce is
not among them: `note_batch` is called for each batch, for it is asked for far more often than all of these.
"""

from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from broker.api.catalogue import Entry, Handler
from broker.api.context import RequestContext
from broker.journal.events import MOST_PLACES, Asked, Json
from broker.journal.groups import DRAWN, EXAMPLES, GroupHabits, NameHabits
from broker.journal.journal import Journal
from broker.journal.peers import LONGEST_NAME, Peer
from broker.process.eager import is_coroutine
from protocol.errors import ErrorCode
from protocol.records.batch import TRANSACTIONAL, BatchHeader

LOOKED_AT = 1000
"""Entries of an answer in which an error is looked for."""
MOST_SUBJECTS = 10
"""Transactional ids of one request that are noted; only brokers and operators name several."""
MODERN_END = 5
"""The EndTxn of KIP-890."""


class Subject(NamedTuple):
    """What a request says of one transactional id."""

    transactional_id: str
    says: Json
    claimed: tuple[int, int]


Subjects: TypeAlias = Iterable[Subject]
NameOf: TypeAlias = Callable[[Any], str]
Reply: TypeAlias = tuple[int, Json]
"""An error code, and what was given."""


def peer_of(journal: Journal, context: RequestContext) -> Peer:
    """Who asks; found once for each connection and client id."""
    connection = context.connection
    peer = connection.peer
    if (
        peer is not None
        and peer.said_id is context.client_id
        and (peer.software_name is connection.software_name or peer.software_name == connection.software_name)
    ):
        return peer
    connection.peer = peer = journal.clients.met(
        client_id=context.client_id,
        host=connection.peer_host,
        port=connection.peer_port,
        software_name=connection.software_name,
        software_version=connection.software_version,
        principal=connection.principal,
        listener=connection.listener,
        connection_id=connection.connection_id,
    )
    return peer


def note_batch(
    journal: Journal,
    context: RequestContext,
    transactional_id: str | None,
    place: tuple[str, int],
    header: BatchHeader,
    base_offset: int,
    error: int,
    now_ms: int,
) -> None:
    """A batch of a Produce, appended or refused."""
    peer = peer_of(journal, context)
    if not error:
        habits = peer.habits
        habits.batches += 1
        habits.records += header.records_count
        habits.bytes += header.batch_length
        if header.producer_id < 0:
            habits.plain_batches += 1
    if transactional_id is not None and header.attributes & TRANSACTIONAL:
        journal.wrote(
            transactional_id,
            peer,
            context.api_version,
            place,
            base_offset,
            header,
            ErrorCode(error).name if error else "NONE",
            now_ms,
        )


# -- what requests say ---------------------------------------------------------------------------------------------


def _identity(request: Any) -> tuple[Json, tuple[int, int]]:
    claimed = request.producer_id, request.producer_epoch
    return {"producerId": claimed[0], "epoch": claimed[1]}, claimed


def _init(journal: Journal, services: Any, request: Any, peer: Peer) -> Subjects:
    if request.transactional_id:
        says, claimed = _identity(request)
        yield Subject(request.transactional_id, {"timeoutMs": request.transaction_timeout_ms, **says}, claimed)


def _its_name(topic: Any) -> str:
    name: str = topic.name
    return name


def _places(topics: Iterable[Any], of_partition: Callable[[Any], tuple[int, ...]], name_of: NameOf) -> Json:
    """The first partitions that a request names, and how many there are."""
    places: list[list[Any]] = []
    count = 0
    for topic in topics:
        count += len(topic.partitions)
        for one in topic.partitions[: MOST_PLACES - len(places)]:
            places.append([name_of(topic)[:LONGEST_NAME], *of_partition(one)])
    return {"places": places, "count": count}


def _add_partitions(journal: Journal, services: Any, request: Any, peer: Peer) -> Subjects:
    if request.v3_and_below_transactional_id:
        claimed = request.v3_and_below_producer_id, request.v3_and_below_producer_epoch
        says = {"producerId": claimed[0], "epoch": claimed[1], "verifies": False}
        places = _places(request.v3_and_below_topics, lambda index: (index,), _its_name)
        yield Subject(request.v3_and_below_transactional_id, says | places, claimed)
    for one in request.transactions[:MOST_SUBJECTS]:
        says, claimed = _identity(one)
        places = _places(one.topics, lambda index: (index,), _its_name)
        yield Subject(one.transactional_id, {**says, "verifies": one.verify_only, **places}, claimed)


def _add_offsets(journal: Journal, services: Any, request: Any, peer: Peer) -> Subjects:
    says, claimed = _identity(request)
    yield Subject(request.transactional_id, {**says, "group": request.group_id[:LONGEST_NAME]}, claimed)


def _commit_offsets(journal: Journal, services: Any, request: Any, peer: Peer) -> Subjects:
    generation, member = request.generation_id_or_member_epoch, request.member_id
    says, claimed = _identity(request)
    says |= {"group": request.group_id[:LONGEST_NAME], "generation": generation, "member": member[:LONGEST_NAME]}

    def name_of(topic: Any) -> str:
        found = None if topic.name else services.topics.by_id(topic.topic_id)
        return topic.name if found is None else str(found.name)

    offsets = _places(request.topics, lambda one: (one.partition_index, one.committed_offset), name_of)
    yield Subject(request.transactional_id, says | offsets, claimed)


def _end(journal: Journal, services: Any, request: Any, peer: Peer) -> Subjects:
    says, claimed = _identity(request)
    yield Subject(request.transactional_id, {"commit": request.committed, **says}, claimed)


def _markers(journal: Journal, services: Any, request: Any, peer: Peer) -> Subjects:
    for one in request.markers[:MOST_SUBJECTS]:
        transactional_id = journal.id_of(one.producer_id)
        if transactional_id is not None:
            says, claimed = _identity(one)
            places = [
                [topic.name[:LONGEST_NAME], index] for topic in one.topics for index in topic.partition_indexes[:1]
            ]
            more = {"commit": one.transaction_result, "level": one.transaction_version, "places": places[:MOST_PLACES]}
            yield Subject(transactional_id, {**says, **more}, claimed)


def _group(journal: Journal, group_id: str) -> GroupHabits:
    return journal.groups.put(journal.groups.find(group_id) or GroupHabits(), group_id)


# -- what is answered ----------------------------------------------------------------------------------------------


def _one_error(response: Any, position: int) -> Reply:
    return response.error_code, {}


def _new_identity(response: Any, position: int) -> Reply:
    known = response.producer_id >= 0
    gave = {"producerId": response.producer_id, "epoch": response.producer_epoch} if known else {}
    return response.error_code, gave


def _first_error(codes: Iterable[int]) -> int:
    return next((code for code in islice(codes, LOOKED_AT) if code), 0)


def _added(response: Any, position: int) -> Reply:
    topics = response.results_by_topic_v3_and_below
    if not topics and position < len(response.results_by_transaction):
        topics = response.results_by_transaction[position].topic_results
    return _first_error(one.partition_error_code for topic in topics for one in topic.results_by_partition), {}


def _committed(response: Any, position: int) -> Reply:
    return _first_error(one.error_code for topic in response.topics for one in topic.partitions), {}


def _marked(response: Any, position: int) -> Reply:
    every = (one for marker in response.markers for topic in marker.topics for one in topic.partitions)
    return _first_error(one.error_code for one in every), {}


Says: TypeAlias = Callable[[Journal, Any, Any, Peer], Subjects]
Answers: TypeAlias = Callable[[Any, int], Reply]

NOTED: Mapping[str, tuple[Says, Answers]] = {
    "InitProducerId": (_init, _new_identity),
    "AddPartitionsToTxn": (_add_partitions, _added),
    "AddOffsetsToTxn": (_add_offsets, _one_error),
    "TxnOffsetCommit": (_commit_offsets, _committed),
    "EndTxn": (_end, _new_identity),
    "WriteTxnMarkers": (_markers, _marked),
}
"""API → what a request says of which ids, and what an answer says of the id at a position."""


def _took_offsets(journal: Journal, request: Any, response: Any, peer: Peer) -> None:
    """An OffsetCommit outside transactions, of a member; one that was refused has done no harm."""
    if request.generation_id_or_member_epoch < 0:
        return
    codes = (one.error_code for topic in response.topics for one in topic.partitions)
    if any(not code for code in islice(codes, LOOKED_AT)):
        group = _group(journal, request.group_id)
        group.plain_commits += 1
        group.commits_by = peer


def _joined(journal: Journal, request: Any, response: Any, peer: Peer) -> None:
    """A member that was let in; whoever was refused gave the group no session timeout."""
    if not response.error_code:
        group = _group(journal, request.group_id)
        group.session_timeout_ms, group.joined_by = request.session_timeout_ms, peer


COUNTED: Mapping[str, Callable[[Journal, Any, Any, Peer], None]] = {
    "JoinGroup": _joined,
    "OffsetCommit": _took_offsets,
}
"""API → what is counted of a request and its answer, and no event of a transactional id."""


# -- around a handler ----------------------------------------------------------------------------------------------


def around_handlers(journal: Journal, catalogue: Mapping[int, Entry]) -> dict[int, Entry]:
    """The catalogue with handlers that are noted."""
    return {key: _around(journal, entry) for key, entry in catalogue.items()}


def _around(journal: Journal, entry: Entry) -> Entry:
    if entry.name in NOTED:
        return replace(entry, handler=_noted(journal, entry, *NOTED[entry.name]))
    if entry.name in COUNTED:
        return replace(entry, handler=_counted(journal, entry.handler, COUNTED[entry.name]))
    return entry


def _counted(journal: Journal, handler: Handler, count: Callable[[Journal, Any, Any, Peer], None]) -> Handler:
    def counted(services: Any, context: RequestContext, request: Any) -> Any:
        peer = peer_of(journal, context)
        result = handler(services, context, request)
        assert is_coroutine(result), "each of these may have to wait"
        return _counting(result, lambda response: count(journal, request, response, peer))

    counted.__doc__ = handler.__doc__
    return counted


async def _counting(work: Coroutine[Any, Any, Any], count: Callable[[Any], None]) -> Any:
    response = await work
    count(response)
    return response


def _noted(journal: Journal, entry: Entry, says: Says, answers: Answers) -> Handler:
    handler = entry.handler

    def noted(services: Any, context: RequestContext, request: Any) -> Any:
        peer = peer_of(journal, context)
        version = context.api_version
        asked = [
            (subject, _asked(journal, subject, peer, entry.name, version))
            for subject in says(journal, services, request, peer)
        ]
        if not asked:
            return handler(services, context, request)
        result = handler(services, context, request)
        assert is_coroutine(result), "each of these may have to wait"
        return _followed(journal, result, asked, answers)

    noted.__doc__ = handler.__doc__
    return noted


def _asked(journal: Journal, subject: Subject, peer: Peer, api: str, version: int) -> Asked:
    places = len(subject.says.get("places", ()))
    return journal.asked(subject.transactional_id, peer, api, version, subject.says, places=places)


async def _followed(
    journal: Journal, work: Coroutine[Any, Any, Any], asked: list[tuple[Subject, Asked]], answers: Answers
) -> Any:
    response = await _Stepwise(journal, work, asked[0][1])
    for position, (subject, one) in enumerate(asked):
        code, gave = answers(response, position)
        error = ErrorCode(code).name if code else "NONE"
        journal.answered(subject.transactional_id, one, error, gave, subject.claimed)
        if not code:
            _count(journal, subject, one, gave)
    return response


def _count(journal: Journal, subject: Subject, asked: Asked, gave: Json) -> None:
    if asked.api == "EndTxn":
        if asked.version < MODERN_END:
            asked.peer.habits.classic_ends += 1
        else:
            asked.peer.habits.modern_ends += 1
    elif asked.api == "TxnOffsetCommit":
        group = _group(journal, subject.says["group"])
        group.in_transactions += 1
        group.by, group.transactional_id = asked.peer, subject.transactional_id[:LONGEST_NAME]
        if subject.says["generation"] < 0 or not subject.says["member"]:
            group.without_member += 1
    elif asked.api == "InitProducerId" and DRAWN.search(subject.transactional_id[:LONGEST_NAME]):
        peer = asked.peer
        program = (peer.software_name, peer.software_version, peer.host, peer.principal)
        names = journal.names.put(journal.names.find(*program) or NameHabits(), *program)
        names.peer = peer
        if gave["epoch"] or subject.claimed[0] >= 0:
            names.again += 1
        else:
            names.new += 1
            names.examples = [*names.examples[1 - EXAMPLES :], subject.transactional_id[:LONGEST_NAME]]


class _Stepwise:
    """Awaits a coroutine, and has the journal know whose each of its steps is."""

    __slots__ = ("_asked", "_journal", "_work")

    def __init__(self, journal: Journal, work: Coroutine[Any, Any, Any], asked: Asked) -> None:
        self._journal = journal
        self._work = work
        self._asked = asked

    def __await__(self) -> Generator[Any, Any, Any]:
        journal, work, asked = self._journal, self._work, self._asked
        step: Callable[[Any], Any] = work.send
        given: Any = None
        while True:
            before, journal.current = journal.current, asked
            try:
                waiting = step(given)
            except StopIteration as finished:
                return finished.value
            finally:
                journal.current = before
            try:
                step, given = work.send, (yield waiting)
            except GeneratorExit:
                work.close()
                raise
            except BaseException as error:  # noqa: BLE001  it is for `work`, a cancellation above all
                step, given = work.throw, error
