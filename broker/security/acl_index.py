"""The index of ACLs: who may do what with a resource of a given name, in a microsecond or two however many ACLs there
are.

Rule 1. Names are kept by principal, host, operation, permission and type of resource: of all these a question knows
        which it has to look at, and which of them there are is remembered for the next one (`_View`).
Rule 2. Of prefixes only those count that do not begin with another one. Of these at most one can be that of a name:
        the last one before it, in order.
Rule 3. Answers are remembered with their view, and both until an ACL comes or goes.
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

    __slots__ = ("_prefixes", "counts", "names", "shortest")

    def __init__(self) -> None:
        self.counts: dict[tuple[int, str], int] = {}
        self.names: set[str] = set()
        self.shortest: list[str] | None = None
        """Prefixes that do not begin with another one, in order; None where that is to be found out."""
        self._prefixes: list[str] = []
        """In order."""

    def add(self, pattern_type: int, name: str) -> None:
        before = self.counts.get((pattern_type, name), 0)
        self.counts[pattern_type, name] = before + 1
        if before:
            return
        if pattern_type == PatternType.PREFIXED:
            insort(self._prefixes, name)
            self.shortest = None
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
            self.shortest = None
        else:
            self.names.discard(name)

    def prefix_of(self, name: str) -> bool:
        """Whether the name begins with one of the prefixes."""
        shortest = self.shortest if self.shortest is not None else self.find_shortest()
        place = bisect_right(shortest, name)
        return place > 0 and name.startswith(shortest[place - 1])

    def find_shortest(self) -> list[str]:
        shortest = self.shortest = []
        for prefix in self._prefixes:
            if not shortest or not prefix.startswith(shortest[-1]):
                shortest.append(prefix)
        return shortest


def _one_covers(some: tuple[_Patterns, ...], name: str) -> bool:
    """Whether a literal pattern, the wildcard or a prefix is of this name. In one go, without calls: it is asked for
    each name that is new."""
    for patterns in some:
        names = patterns.names
        if names and (name in names or WILDCARD in names):
            return True
        shortest = patterns.shortest
        if shortest is None:
            shortest = patterns.find_shortest()
        if shortest and (place := bisect_right(shortest, name)) and name.startswith(shortest[place - 1]):
            return True
    return False


class _View:
    """What a question of one principal, host, operation and type of resource has to look at, and answers by name."""

    __slots__ = ("allowed", "answers", "denied")

    def __init__(self, denied: tuple[_Patterns, ...], allowed: tuple[_Patterns, ...]) -> None:
        self.denied = denied
        self.allowed = allowed
        self.answers: dict[str, Decision] = {}


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
        self._remembered = 0
        """Views, and answers in them."""

    def add(self, acl: Acl) -> None:
        self._forget()
        self._patterns.setdefault(_place(acl), _Patterns()).add(acl.pattern_type, acl.resource_name)
        self._with_any.setdefault(acl.resource_type, _Patterns()).add(acl.pattern_type, acl.resource_name)

    def remove(self, acl: Acl) -> None:
        self._forget()
        place = _place(acl)
        patterns = self._patterns[place]
        patterns.remove(acl.pattern_type, acl.resource_name)
        if not patterns.counts:
            del self._patterns[place]
        self._with_any[acl.resource_type].remove(acl.pattern_type, acl.resource_name)

    def decide(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> Decision:
        """Deny before allow; what nothing speaks of is denied."""
        view = self._views.get((principal, host, operation, resource_type))
        if view is None:
            view = self._view(principal, host, operation, resource_type)
        known = view.answers.get(name)
        if known is None:
            known = self._decide(view, resource_type, name)
            if len(name) <= LONGEST_REMEMBERED:
                if self._remembered >= MOST_REMEMBERED:
                    self._forget()
                else:
                    view.answers[name] = known
                    self._remembered += 1
        return known

    def _forget(self) -> None:
        self._views.clear()
        self._remembered = 0

    def _decide(self, view: _View, resource_type: int, name: str) -> Decision:
        if _one_covers(view.denied, name):
            return DENIED_BY_ACL
        if _one_covers(view.allowed, name):
            return ALLOWED_BY_ACL
        if self._allow_if_none:
            with_any = self._with_any.get(resource_type)
            if with_any is None or not _one_covers((with_any,), name):
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
        if view is None:
            view = self._look(*asked)
            if len(principal) <= LONGEST_REMEMBERED:
                if self._remembered >= MOST_REMEMBERED:
                    self._forget()
                self._views[asked] = view
                self._remembered += 1
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
