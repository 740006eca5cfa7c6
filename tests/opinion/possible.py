"""All states that a transactional id may be in, while requests on it overlap.

A configuration is a state and those of the answered requests under way that have taken place already. When a response
comes, every order of what is under way is followed, with what the broker does by itself; configurations in which this
request has not taken place as it was answered are dropped. Where none is left, the response is one that is not allowed.
After that, and where there are too many, the id is not judged any more.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from protocol.errors import ErrorCode
from tests.opinion.evidence import Evidence
from tests.opinion.identity import Identity, Kind, by_itself, fenced
from tests.opinion.operation import Operation
from tests.opinion.operations import operations_on
from tests.opinion.trace import NEVER, Circumstances

MOST = 1000
"""Configurations that are followed at once."""
ANYBODY = (-1, -1)
Configuration = tuple[Identity, frozenset[int]]
"""Negative numbers count the requests for a new epoch without an answer that have given one."""


@dataclass(slots=True)
class Follower:
    """One id through its trace. Operations are known by their index in `operations`."""

    operations: list[Operation]
    circumstances: Circumstances
    configurations: set[Configuration] = field(default_factory=lambda: {(Identity(), frozenset())})
    under_way: list[int] = field(default_factory=list)
    unanswered: list[int] = field(default_factory=list)
    claims: list[int] = field(default_factory=list)
    """Of those without an answer, those for a new epoch whoever has it now: each gives one, if at all, and which of
    them does makes no difference."""
    too_many: bool = False
    _behind_unanswered: dict[Identity, tuple[Identity, ...]] = field(default_factory=dict)
    """Of each state: those behind any of `unanswered`."""

    def begin(self, index: int) -> None:
        """A request is sent."""
        one = self.operations[index]
        others = [other for other in self.under_way if self.operations[other].exchange is not one.exchange]
        if others or self.unanswered or self.claims:
            one.contended = True
            for other in others:
                self.operations[other].contended = True
        without_answer = self.claims if one.claims == ANYBODY else self.unanswered
        (self.under_way if one.observed is not None else without_answer).append(index)
        if one.observed is None:
            self._behind_unanswered.clear()

    def end(self, index: int) -> bool:
        """A response is received; whether it is one that is allowed."""
        now_s = self.operations[index].exchange.received_s
        kept: set[Configuration] = set()
        seen, todo = set(self.configurations), list(self.configurations)
        while todo:
            found = todo.pop()
            if index in found[1]:  # what comes behind it is followed when the next response comes
                kept.add((found[0], found[1] - {index}))
                continue
            for follower in self._next(found, now_s):
                if follower not in seen:
                    seen.add(follower)
                    todo.append(follower)
            if len(seen) > MOST:
                self.too_many = True
                return True
        self.under_way.remove(index)
        self.configurations = _merged(kept)
        return bool(kept)

    def _next(self, configuration: Configuration, now_s: float) -> Iterator[Configuration]:
        known, done = configuration
        for state in by_itself(known, self.circumstances, now_s):
            yield state, done
        for state in self._after_unanswered(known):
            yield state, done
        if self.claims and (given := sum(number < 0 for number in done)) < len(self.claims):
            for state in self.operations[self.claims[given]].unanswered(known):
                yield state, (done if known.kind == Kind.ONGOING else done | {-1 - given})
        yield from self._after_those_under_way(configuration)

    def _after_those_under_way(self, configuration: Configuration) -> Iterator[Configuration]:
        known, done = configuration
        behind: set[str] = set()
        for index in self.under_way:
            one = self.operations[index]
            if index in done:
                continue
            if known.kind == Kind.ONGOING and one.claims is not None:  # it waits until what it aborts has ended
                for state in fenced(known, self.circumstances):
                    yield state, done
            if one.is_fenced_by_the_partition:
                for state in one.unanswered(known):
                    yield state, done
            if one.exchange.connection not in behind:
                for state in one.after(known):
                    yield state, done | {index}
            behind.add(one.exchange.connection)

    def _after_unanswered(self, known: Identity) -> tuple[Identity, ...]:
        if not self.unanswered:
            return ()
        found = self._behind_unanswered.get(known)
        if found is None:
            each = (self.operations[index].unanswered(known) for index in self.unanswered)
            found = self._behind_unanswered[known] = tuple(dict.fromkeys(state for states in each for state in states))
        return found


def _merged(found: set[Configuration]) -> set[Configuration]:
    """Those that differ only in what is in the transaction, or since when, are one that allows all they do."""
    if len(found) < 2:
        return found
    merged: dict[object, Configuration] = {}
    for state, done in found:
        key = (state.without_contents(), done)
        same = merged.get(key)
        merged[key] = (state if same is None else state.united(same[0])), done
    return set(merged.values())


def check(evidence: Evidence) -> None:
    """Every transactional id of the trace."""
    for name, operations in operations_on(evidence).items():
        _follow(evidence, name, operations)
    _check_fresh(evidence)


def _follow(evidence: Evidence, name: str, operations: list[Operation]) -> None:
    follower = Follower(operations, evidence.circumstances)
    moments = [(one.exchange.sent, 0, index) for index, one in enumerate(operations)]
    moments += [(one.exchange.received, 1, index) for index, one in enumerate(operations) if one.observed is not None]
    over = _first_operated(evidence)
    for tick, ends, index in sorted(moments):
        if tick >= over or follower.too_many:
            return
        if not ends:
            follower.begin(index)
            continue
        before = follower.configurations
        if not follower.end(index):
            one = operations[index]
            assert one.observed is not None
            code, producer_id, epoch = one.observed
            states = "; ".join(sorted({_words(state) for state, _ in before})[:4])
            text = f"{name}: {ErrorCode(code).name} ({producer_id}, {epoch}); before it: {states}"
            evidence.object("id.answer", one.exchange, text)
            return


def _first_operated(evidence: Evidence) -> int:
    """From when on a client writes markers itself, over the head of the coordinator."""
    return next((one.sent for one in evidence.of("WriteTxnMarkers")), NEVER)


def _words(state: Identity) -> str:
    partitions = " ".join(f"{name}-{index}" for name, index in sorted(state.possible))
    return f"{state.kind} ({state.producer_id}, {state.epoch}) last {state.last_epoch} [{partitions}]"


def _check_fresh(evidence: Evidence) -> None:
    """A producer id belongs to one transactional id or one idempotent producer, and an epoch of it is given once."""
    owners: dict[int, object] = {}
    given: dict[tuple[int, int], int] = {}
    for exchange in evidence.of("InitProducerId"):
        request, response = exchange.request, exchange.response
        if response is None or response.error_code != ErrorCode.NONE:
            continue
        owner = request.transactional_id or exchange.sent
        if owners.setdefault(response.producer_id, owner) != owner:
            evidence.object("init.fresh", exchange, f"producer id {response.producer_id} belongs to somebody else")
        identity = (response.producer_id, response.producer_epoch)
        if request.producer_id < 0 and given.setdefault(identity, exchange.sent) != exchange.sent:
            evidence.object("init.fresh", exchange, f"{identity} was given to somebody before")
