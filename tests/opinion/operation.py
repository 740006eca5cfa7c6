"""One request on a transactional id: what it was answered, and which states may be behind it."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from protocol.errors import ErrorCode
from tests.opinion.identity import ANYTHING, Identity, Kind
from tests.opinion.trace import PASSING, Exchange
from tests.opinion.transitions import Answer, Result

Results = Callable[[Identity], Iterable[Result]]
NO_OPINION = PASSING | {ErrorCode.INVALID_GROUP_ID, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}


@dataclass(slots=True, eq=False)
class Operation:
    """One request on an id; of a Produce, one partition of it."""

    exchange: Exchange
    observed: Answer | None
    """None where there was no response."""
    results: Results
    claims: tuple[int, int] | None = None
    """Of InitProducerId: the identity that it names."""
    contended: bool = False
    """Another request on the id was under way."""
    _known: dict[Identity, tuple[Identity, ...]] = field(default_factory=dict)

    @property
    def is_fenced_by_the_partition(self) -> bool:
        """It may have been let in by the coordinator, and have come to the partition behind the marker of whoever has
        fenced the producer since."""
        is_fenced = self.observed is not None and self.observed.code == ErrorCode.INVALID_PRODUCER_EPOCH
        return is_fenced and self.contended and self.exchange.api == "Produce"

    def after(self, known: Identity) -> Iterator[Identity]:
        """The states behind it, if it was answered as it was."""
        seen = self.observed
        assert seen is not None
        if known.kind == Kind.ANYTHING:
            yield self._adopted(seen)
            return
        if seen.code in NO_OPINION:
            yield known
            yield from self.unanswered(known)
            return
        if seen.code == ErrorCode.CONCURRENT_TRANSACTIONS and self.contended:
            yield known
        for answer, after in self.results(known):
            if answer == seen or (answer.code == seen.code and -1 in (answer.producer_id, seen.producer_id)):
                yield after

    def unanswered(self, known: Identity) -> tuple[Identity, ...]:
        """The states behind it, if nobody knows what it was answered. Partitions are then only possible."""
        found = self._known.get(known)
        if found is None:
            found = self._known[known] = tuple(self._behind(known))
        return found

    def _behind(self, known: Identity) -> Iterator[Identity]:
        if known.kind == Kind.ANYTHING:
            return
        for answer, after in self.results(known):
            if after is ANYTHING or answer.code not in (ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS):
                if after != known:
                    yield after
            elif after.kind == Kind.ONGOING:
                certain = known.certain if known.kind == Kind.ONGOING else frozenset()
                yield after._replace(certain=certain)
            elif after != known:
                yield after

    def _adopted(self, seen: Answer) -> Identity:
        if seen.code != ErrorCode.NONE or seen.producer_id < 0:
            return ANYTHING
        if self.exchange.api == "InitProducerId":
            timeout_ms = self.exchange.request.transaction_timeout_ms
            return Identity(Kind.EMPTY, seen.producer_id, seen.epoch, timeout_ms=timeout_ms)
        return ANYTHING
