"""The ACLs of the cluster: what the metadata log says of them, which may be written, and which a filter means.

Pure. An ACL has an id in the log, and is there once. Sentences as Kafka's.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from coordinator.cluster.records import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from coordinator.cluster.topic_rules import Refused
from protocol.acls import CLUSTER_NAME, WILDCARD, Acl, Operation, PatternType, Permission, ResourceType
from protocol.errors import ErrorCode


class AclChange(NamedTuple):
    """An ACL that came or went, and where in the log that stands."""

    offset: int
    acl: Acl
    is_there: bool


class AclTable:
    """What the log says. `changes` are for one who follows it; None where nobody does."""

    def __init__(self) -> None:
        self.by_id: dict[bytes, Acl] = {}
        self.ids: dict[Acl, bytes] = {}
        self.changes: deque[AclChange] | None = None

    def add(self, record: AccessControlEntryRecord, offset: int) -> None:
        acl = Acl(
            record.resource_type,
            record.resource_name,
            record.pattern_type,
            record.principal,
            record.host,
            record.operation,
            record.permission_type,
        )
        assert record.id not in self.by_id, "an ACL has an id of its own"
        assert acl not in self.ids, "an ACL is there once"
        self.by_id[record.id] = acl
        self.ids[acl] = record.id
        self._tell(AclChange(offset, acl, is_there=True))

    def remove(self, record: RemoveAccessControlEntryRecord, offset: int) -> None:
        acl = self.by_id.pop(record.id)
        del self.ids[acl]
        self._tell(AclChange(offset, acl, is_there=False))

    def _tell(self, change: AclChange) -> None:
        if self.changes is not None:
            self.changes.append(change)


class AclFilter(NamedTuple):
    """What DescribeAcls and DeleteAcls ask for; None, and ANY, are as good as anything."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission: int

    def means(self, acl: Acl) -> bool:
        """MATCH means every pattern that is of the resource of this name."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
            and self.pattern_type in (PatternType.ANY, PatternType.MATCH, acl.pattern_type)
            and self._names(acl)
        )

    def _names(self, acl: Acl) -> bool:
        name = self.resource_name
        if name is None or name == acl.resource_name:
            return True
        if self.pattern_type != PatternType.MATCH:
            return False
        if acl.pattern_type == PatternType.PREFIXED:
            return name.startswith(acl.resource_name)
        return acl.resource_name == WILDCARD


def unknown_in(wanted: AclFilter) -> str | None:
    """What is wrong with a filter of words that nobody knows: it could mean more than was thought."""
    if wanted.resource_type == ResourceType.UNKNOWN or wanted.pattern_type == PatternType.UNKNOWN:
        return "Unknown patternFilter."
    if wanted.operation == Operation.UNKNOWN or wanted.permission == Permission.UNKNOWN:
        return "Unknown entryFilter."
    return None


def create_acls(
    table: AclTable,
    acls: Sequence[Acl],
    fresh_id: Callable[[], bytes],
    records: list[object],
    spent: Callable[[], bool],
) -> list[Refused | None]:
    """Decide ACLs, each on its own: one at least, and as many as there is time for. One that is there already is as
    good as made. What is to be written is added to `records`."""
    results: list[Refused | None] = []
    made: set[Acl] = set()
    for acl in acls:
        try:
            check_acl(acl)
            if acl not in table.ids and acl not in made:
                made.add(acl)
                records.append(_record(fresh_id(), acl))
            results.append(None)
        except Refused as refused:
            results.append(refused)
        if spent():
            break
    return results


def remove_acls(
    table: AclTable, ids: Sequence[bytes], records: list[object], spent: Callable[[], bool]
) -> list[Acl | None]:
    """Take ACLs away, each once, as many as there is time for. None for what is gone."""
    removed: list[Acl | None] = []
    for one in ids:
        acl = table.by_id.get(one)
        if acl is not None:
            records.append(RemoveAccessControlEntryRecord(id=one))
        removed.append(acl)
        if spent():
            break
    return removed


def acl_records(acls: Mapping[bytes, Acl]) -> list[AccessControlEntryRecord]:
    """What a snapshot holds of them."""
    return [_record(one, acl) for one, acl in acls.items()]


def _record(acl_id: bytes, acl: Acl) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=acl_id,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def check_acl(acl: Acl) -> None:
    """Whether an ACL can be written. Raises `Refused`."""
    problem = _problem(acl)
    if problem is not None:
        raise Refused(ErrorCode.INVALID_REQUEST, problem)


def _problem(acl: Acl) -> str | None:
    if acl.resource_type == ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not acl.resource_name:
        return "Invalid empty resource name"
    if acl.resource_type in (ResourceType.ANY, ResourceType.UNKNOWN):
        return f"Invalid resourceType {ResourceType(acl.resource_type).name}"
    if acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        return f"Invalid patternType {PatternType(acl.pattern_type).name}"
    if acl.operation in (Operation.ANY, Operation.UNKNOWN):
        return f"Invalid operation {Operation(acl.operation).name}"
    if acl.permission not in (Permission.DENY, Permission.ALLOW):
        return f"Invalid permissionType {Permission(acl.permission).name}"
    if ":" not in acl.principal:
        return (
            f"Could not parse principal from `{acl.principal}` (no colon is present separating the principal type "
            "from the principal name)"
        )
    return None
