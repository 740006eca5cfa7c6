"""Who may do what: super users, then ACLs, as Kafka's `StandardAuthorizer` decides; and the log of decisions.

The log has a name of its own, `authorizer`: what was denied at INFO, what was allowed at DEBUG. A question that is
asked only to find out what to leave out of an answer is not logged where the answer is no.
"""

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import ip_address

from broker.process.logging import EventLog
from broker.security.acl_index import AclIndex, Decision
from protocol.acls import Acl, Operation, ResourceType

ANY_NAME = "hardcode"
"""A name to ask for where a question is about any resource of a type: super users are let in by it, and everybody where
no ACL is enough. Kafka asks for this one."""

_SUPER_USER = Decision(allowed=True, rule="a super user")
_log = EventLog("authorizer")


class Authorizer:
    """See the head of this file. `super_users` may do everything; `allow_if_none` lets everybody do what they want with
    a resource that has no ACL."""

    def __init__(self, super_users: Iterable[str] = (), *, allow_if_none: bool = False) -> None:
        self.changes = 0
        """ACLs that came or went: what somebody may do is the same as long as this is."""
        self._super_users = frozenset(super_users)
        self._index = AclIndex(allow_if_none=allow_if_none)

    def add(self, acl: Acl) -> None:
        self.changes += 1
        self._index.add(acl._replace(host=one_spelling(acl.host)))

    def remove(self, acl: Acl) -> None:
        self.changes += 1
        self._index.remove(acl._replace(host=one_spelling(acl.host)))

    def may(
        self,
        principal: str,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
        *,
        request: str = "",
        quietly: bool = False,
    ) -> bool:
        """Whether this principal, coming from this host, may do that. `request` is the API, for the log; `quietly`
        where a no is nothing to be told of."""
        if principal in self._super_users:
            decision = _SUPER_USER
        else:
            host = one_spelling(host) if ":" in host else host
            decision = self._index.decide(principal, host, operation, resource_type, name)
        if decision.allowed:
            if _log.tells_debug():
                _log.debug("allowed", **_fields(principal, host, operation, resource_type, name, request, decision))
        elif not quietly:
            _log.info("denied", **_fields(principal, host, operation, resource_type, name, request, decision))
        return decision.allowed

    def may_with_some(self, principal: str, host: str, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether there may be a resource of this type that it may do that with (KIP-679)."""
        return self.may(principal, host, operation, resource_type, ANY_NAME, quietly=True) or self._index.allows_some(
            principal, one_spelling(host), operation, resource_type
        )


@lru_cache(1000)
def one_spelling(host: str) -> str:
    """An IPv6 address has many: Java writes `0:0:0:0:0:0:0:1`, the system `::1`, and an IPv4 address may come in its
    dress. An ACL that keeps somebody out must not be missed for that."""
    if ":" not in host:
        return host
    try:
        address = ip_address(host)
    except ValueError:
        return host
    return str(getattr(address, "ipv4_mapped", None) or address)


def _fields(
    principal: str,
    host: str,
    operation: Operation,
    resource_type: ResourceType,
    name: str,
    request: str,
    decision: Decision,
) -> dict[str, str]:
    return {
        "principal": principal,
        "host": host,
        "operation": operation.name,
        "resource": f"{resource_type.name}:{name}",
        "request": request,
        "rule": decision.rule,
    }
