"""ACLs of a broker: described, created and deleted. `protocol.acls.Acl` is one."""

from collections.abc import Iterable, Sequence

from protocol.acls import Acl
from protocol.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from tallystick.client.client import Client
from tallystick.client.errors import check


def creation_of(acl: Acl) -> AclCreation:
    """What asks for it."""
    return AclCreation(
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        resource_pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def filter_of(acl: Acl) -> DeleteAclsFilter:
    """What means it and no other."""
    return DeleteAclsFilter(
        resource_type_filter=acl.resource_type,
        resource_name_filter=acl.resource_name,
        pattern_type_filter=acl.pattern_type,
        principal_filter=acl.principal,
        host_filter=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def described_by(one: DeleteAclsFilter) -> DescribeAclsRequest:
    """What asks which ACLs a filter means."""
    return DescribeAclsRequest(
        resource_type_filter=one.resource_type_filter,
        resource_name_filter=one.resource_name_filter,
        pattern_type_filter=one.pattern_type_filter,
        principal_filter=one.principal_filter,
        host_filter=one.host_filter,
        operation=one.operation,
        permission_type=one.permission_type,
    )


def acls_of(answer: DescribeAclsResponse) -> list[Acl]:
    """What was answered. Raises `KafkaError`."""
    check(answer.error_code, answer.error_message)
    return [
        Acl(
            of.resource_type,
            of.resource_name,
            of.pattern_type,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission_type,
        )
        for of in answer.resources
        for acl in of.acls
    ]


async def described(client: Client, filters: Iterable[DeleteAclsFilter]) -> list[Acl]:
    """What the filters mean, each ACL once."""
    found: dict[Acl, None] = {}
    for one in filters:
        found.update(dict.fromkeys(acls_of(await client.ask(described_by(one)))))
    return list(found)


async def create(client: Client, acls: Sequence[Acl]) -> None:
    """Raises `KafkaError` with the first that is refused."""
    request = CreateAclsRequest(creations=[creation_of(acl) for acl in acls])
    answer: CreateAclsResponse = await client.ask(request)
    for result in answer.results:
        check(result.error_code, result.error_message)


async def delete(client: Client, filters: list[DeleteAclsFilter]) -> list[Acl]:
    """What was taken away."""
    answer: DeleteAclsResponse = await client.ask(DeleteAclsRequest(filters=filters))
    gone: list[Acl] = []
    for result in answer.filter_results:
        check(result.error_code, result.error_message)
        for of in result.matching_acls:
            check(of.error_code, of.error_message)
            named = of.resource_type, of.resource_name, of.pattern_type
            gone.append(Acl(*named, of.principal, of.host, of.operation, of.permission_type))
    return gone
