"""The index of ACLs: who may do what with a resource of a given name, in a microsecond or two however many ACLs there
are.

Rule 1. Names are kept by principal, host, operation, permission and type of resource: of all these a question knows
        which it has to look at, and which of them there are is remembered for the next one (`_View`).
Rule 2. Of prefixes only those count that do not begin with another one. Of these at most one can be that of a name:
        the last one before it, in order.
Rule 3. Answers are remembered until an ACL comes or goes.
"""

from bisect import bisect_left, bisect_right, insort
from typing import NamedTuple

from protocol.acls import ANYBODY, WILDCARD, Acl, Operation, PatternType, Permission

MOST_REMEMBERED = 20_000
"""Answers, and views. Clients choose what names they ask for and what hosts they come from."""
LONGEST_REMEMBERED = 256
"""Characters of a name, or of a principal, that something is remembered of; topics have 249."""

IMPLIED_BY: dict[int, tuple[int, ...]] = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}
"""Who is allowed one of these is allowed the other; who is denied one of them is not denied the other."""


class Decision(NamedTuple):
    """An answer and the reason for it."""

    allowed: bool
    rule: str


DENIED_BY_ACL = Decision(allowed=False, rule="an ACL denies it")
ALLOWED_BY_ACL = Decision(allowed=True, rule="an ACL allows it")
DENIED_BY_DEFAULT = Decision(allowed=False, rule="no ACL allows it")
ALLOWED_BY_DEFAULT = Decision(allowed=True, rule="the resource has no ACL")


class _Patterns:
    """Resource patterns, each as often as it was added."""

    __slots__ = ("_prefixes", "_shortest", "counts", "names")

    def __init__(self) -> None:
        self.counts: dict[tuple[int, str], int] = {}
        self.names: set[str] = set()
        self._prefixes: list[str] = []
        """In order."""
        self._shortest: list[str] | None = None
        """Those that do not begin with another one; None where that is to be found out."""

    def add(self, pattern_type: int, name: str) -> None:
        before = self.counts.get((pattern_type, name), 0)
        self.counts[pattern_type, name] = before + 1
        if before:
            return
        if pattern_type == PatternType.PREFIXED:
            insort(self._prefixes, name)
            self._shortest = None
        else:
            self.names.add(name)

    def remove(self, pattern_type: int, name: str) -> None:
        left = self.counts[pattern_type, name] - 1
        if left:
            self.counts[pattern_type, name] = left
            return
        del self.counts[pattern_type, name]
        if pattern_type == PatternType.PREFIXED:
            del self._prefixes[bisect_left(self._prefixes, name)]
            self._shortest = None
        else:
            self.names.discard(name)

    def cover(self, name: str) -> bool:
        """Whether a literal pattern, the wildcard or a prefix is of this name."""
        return name in self.names or WILDCARD in self.names or (bool(self._prefixes) and self.prefix_of(name))

    def prefix_of(self, name: str) -> bool:
        """Whether the name begins with one of the prefixes."""
        shortest = self._shortest
        if shortest is None:
            shortest = self._shortest = []
            for prefix in self._prefixes:
                if not shortest or not prefix.startswith(shortest[-1]):
                    shortest.append(prefix)
        place = bisect_right(shortest, name)
        return place > 0 and name.startswith(shortest[place - 1])


class _View(NamedTuple):
    """What a question of one principal, host, operation and type of resource has to look at."""

    denied: tuple[_Patterns, ...]
    allowed: tuple[_Patterns, ...]


_Place = tuple[int, str, str, int, int]
"""(type of resource, principal, host, operation, permission)"""


class AclIndex:
    """See the head of this file. `allow_if_none`: who asks of a resource that has no ACL at all is let in."""

    def __init__(self, *, allow_if_none: bool = False) -> None:
        self._allow_if_none = allow_if_none
        self._patterns: dict[_Place, _Patterns] = {}
        self._with_any: dict[int, _Patterns] = {}
        """Resources that have an ACL, by their type."""
        self._views: dict[tuple[str, str, int, int], _View] = {}
        self._answers: dict[tuple[str, str, int, int, str], Decision] = {}

    def add(self, acl: Acl) -> None:
        place = _place(acl)
        self._answers.clear()
        patterns = self._patterns.get(place)
        if patterns is None:
            patterns = self._patterns[place] = _Patterns()
            self._views.clear()
        patterns.add(acl.pattern_type, acl.resource_name)
        self._with_any.setdefault(acl.resource_type, _Patterns()).add(acl.pattern_type, acl.resource_name)

    def remove(self, acl: Acl) -> None:
        place = _place(acl)
        self._answers.clear()
        patterns = self._patterns[place]
        patterns.remove(acl.pattern_type, acl.resource_name)
        if not patterns.counts:
            del self._patterns[place]
            self._views.clear()
        self._with_any[acl.resource_type].remove(acl.pattern_type, acl.resource_name)

    def decide(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> Decision:
        """Deny before allow; what nothing speaks of is denied."""
        asked = (principal, host, operation, resource_type, name)
        known = self._answers.get(asked)
        if known is None:
            known = self._decide(self._view(principal, host, operation, resource_type), resource_type, name)
            if len(self._answers) >= MOST_REMEMBERED:
                self._answers.clear()
            if len(name) <= LONGEST_REMEMBERED and len(principal) <= LONGEST_REMEMBERED:
                self._answers[asked] = known
        return known

    def _decide(self, view: _View, resource_type: int, name: str) -> Decision:
        for patterns in view.denied:
            if patterns.cover(name):
                return DENIED_BY_ACL
        for patterns in view.allowed:
            if patterns.cover(name):
                return ALLOWED_BY_ACL
        if self._allow_if_none:
            with_any = self._with_any.get(resource_type)
            if with_any is None or not with_any.cover(name):
                return ALLOWED_BY_DEFAULT
        return DENIED_BY_DEFAULT

    def allows_some(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """Whether an ACL allows an operation on any resource of a type at all that no other ACL denies (KIP-679). Not
        for operations that others imply."""
        assert operation not in IMPLIED_BY
        view = self._view(principal, host, operation, resource_type)
        if any(WILDCARD in denied.names for denied in view.denied):
            return False
        if any(WILDCARD in allowed.names for allowed in view.allowed):
            return True
        return any(
            not any(denied.prefix_of(name) for denied in view.denied)
            for allowed in view.allowed
            for pattern_type, name in allowed.counts
            if pattern_type == PatternType.PREFIXED or not any(name in denied.names for denied in view.denied)
        )

    def _view(self, principal: str, host: str, operation: int, resource_type: int) -> _View:
        asked = (principal, host, operation, resource_type)
        view = self._views.get(asked)
        if view is None and len(principal) > LONGEST_REMEMBERED:
            return self._look(*asked)
        if view is None:
            if len(self._views) >= MOST_REMEMBERED:
                self._views.clear()
            view = self._views[asked] = self._look(*asked)
        return view

    def _look(self, principal: str, host: str, operation: int, resource_type: int) -> _View:
        whose = [(who, where) for who in dict.fromkeys((principal, ANYBODY)) for where in (host, WILDCARD)]

        def those_for(operations: tuple[int, ...], permission: int) -> tuple[_Patterns, ...]:
            places = [(resource_type, who, where, one, permission) for who, where in whose for one in operations]
            return tuple(self._patterns[place] for place in dict.fromkeys(places) if place in self._patterns)

        same = (operation, Operation.ALL)
        return _View(
            those_for(same, Permission.DENY),
            those_for((*same, *IMPLIED_BY.get(operation, ())), Permission.ALLOW),
        )


def _place(acl: Acl) -> _Place:
    return acl.resource_type, acl.principal, acl.host, acl.operation, acl.permission
