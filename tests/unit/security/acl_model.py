"""What Kafka's StandardAuthorizer answers, found slowly: every ACL is looked at for every question."""

from collections.abc import Collection
from dataclasses import dataclass, field

from protocol.acls import Acl, Operation, PatternType, Permission, ResourceType

IMPLY_DESCRIBE = {Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
IMPLY_DESCRIBE_CONFIGS = {Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}


@dataclass
class AclModel:
    """The ACLs as a list, and the two settings."""

    super_users: Collection[str] = ()
    allow_if_none: bool = False
    acls: list[Acl] = field(default_factory=list[Acl])

    def may(self, principal: str, host: str, operation: Operation, kind: ResourceType, name: str) -> bool:
        if principal in self.super_users:
            return True
        of_resource = [acl for acl in self.acls if acl.resource_type == kind and is_of(acl, name)]
        speaking = [acl for acl in of_resource if speaks_of(acl, principal, host, operation)]
        if any(acl.permission == Permission.DENY for acl in speaking):
            return False
        if speaking:
            return True
        return self.allow_if_none and not of_resource

    def may_with_some(self, principal: str, host: str, operation: Operation, kind: ResourceType) -> bool:
        """By trying names: each that an ACL is about, one that begins with each prefix and that no ACL names, and
        Kafka's made-up one."""
        if self.may(principal, host, operation, kind, "hardcode"):
            return True
        of_kind = [acl for acl in self.acls if acl.resource_type == kind]
        speaking = [acl for acl in of_kind if speaks_of(acl, principal, host, operation)]
        everything = (PatternType.LITERAL, "*")
        if any((acl.pattern_type, acl.resource_name) == everything for acl in speaking if is_deny(acl)):
            return False
        tried = [acl for acl in speaking if not is_deny(acl)]
        denied = [acl for acl in speaking if is_deny(acl)]
        for acl in tried:
            if (acl.pattern_type, acl.resource_name) == everything:
                return True
            fresh = acl.resource_name + ("\N{SNOWMAN}" if acl.pattern_type == PatternType.PREFIXED else "")
            if not any(is_of(one, fresh) for one in denied):
                return True
        return False


def is_deny(acl: Acl) -> bool:
    return acl.permission == Permission.DENY


def is_of(acl: Acl, name: str) -> bool:
    if acl.pattern_type == PatternType.PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in (name, "*")


def speaks_of(acl: Acl, principal: str, host: str, operation: Operation) -> bool:
    if acl.principal not in (principal, "User:*") or acl.host not in (host, "*"):
        return False
    if acl.operation in (operation, Operation.ALL):
        return True
    if is_deny(acl):
        return False
    if operation is Operation.DESCRIBE:
        return acl.operation in IMPLY_DESCRIBE
    return operation is Operation.DESCRIBE_CONFIGS and acl.operation in IMPLY_DESCRIBE_CONFIGS
