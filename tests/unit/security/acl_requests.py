"""CreateAcls, DeleteAcls and DescribeAcls of what can and cannot be written, asked by who may do everything.

Told to a node of ours; `kafka_door` tells it to a real Apache Kafka and writes its answers into
`kafka_acl_requests.json`. Sentences count; a connection that ends instead of an answer is "closed".
"""

from pathlib import Path
from typing import Any

from protocol.acls import CLUSTER_NAME, Acl, Operation, PatternType, Permission, ResourceType
from protocol.errors import ErrorCode
from protocol.messages.acls import CreateAclsRequest, DeleteAclsFilter, DeleteAclsRequest
from tallystick.client.acls import creation_of, described_by, filter_of
from tests.unit.security.api_answers import Door
from tests.unit.security.door_rig import ALICE, CLOSED, EVERYTHING, ROOT

RECORDED = Path(__file__).with_name("kafka_acl_requests.json")
GOOD = Acl(ResourceType.TOPIC, "t", PatternType.LITERAL, ALICE, "*", Operation.READ, Permission.ALLOW)
NOBODY_KNOWS = 99
CODES = ("resource_type", "pattern_type", "operation", "permission")

CHANGES: dict[str, dict[str, Any]] = {
    "good": {},
    "a cluster of another name": {"resource_type": ResourceType.CLUSTER, "resource_name": "other"},
    "no name": {"resource_name": ""},
    "a name that no topic has": {"resource_name": "in/valid"},
    "a prefix of all": {"resource_name": "*", "pattern_type": PatternType.PREFIXED},
    "a prefix of clusters": {
        "resource_type": ResourceType.CLUSTER,
        "resource_name": CLUSTER_NAME,
        "pattern_type": PatternType.PREFIXED,
    },
    "pattern_type MATCH": {"pattern_type": PatternType.MATCH},
    "an operation that groups do not have": {"resource_type": ResourceType.GROUP, "operation": Operation.CREATE},
    "no principal": {"principal": ""},
    "a principal without a type": {"principal": "alice"},
    "a principal without a name": {"principal": "User:"},
    "a principal of the type nothing": {"principal": ":alice"},
    "no host": {"host": ""},
    "a host that is none": {"host": "not-a-host"},
    **{f"{code} ANY": {code: 1} for code in CODES},
    **{f"{code} UNKNOWN": {code: 0} for code in CODES},
    **{f"{code} that nobody knows": {code: NOBODY_KNOWS} for code in CODES},
}
"""What is not as in a good ACL, and in a filter that means it."""


async def answers(door: Door) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, change in CHANGES.items():
        acl = GOOD._replace(**change)
        await door.replace_acls(())
        found[f"create {name}"] = await _heard(door, CreateAclsRequest(creations=[creation_of(acl)]))
        await door.replace_acls((GOOD,))
        found[f"describe {name}"] = await _heard(door, described_by(filter_of(acl)))
        found[f"delete {name}"] = await _heard(door, DeleteAclsRequest(filters=[filter_of(acl)]))
    for name, filters in OF_MANY.items():
        await door.replace_acls((GOOD, OTHER))
        found[f"delete {name}"] = await _heard(door, DeleteAclsRequest(filters=list(filters)))
    twice = [creation_of(GOOD), creation_of(GOOD._replace(resource_name="")), creation_of(GOOD)]
    found["create twice"] = await _heard(door, CreateAclsRequest(creations=twice))
    return found


OTHER = GOOD._replace(operation=Operation.WRITE)
OF_MANY: dict[str, tuple[DeleteAclsFilter, ...]] = {
    "with one filter": (EVERYTHING,),
    "with no filter": (),
    "with filters that have nothing in common": (filter_of(GOOD), filter_of(OTHER)),
    "with filters that mean the same": (filter_of(GOOD), EVERYTHING, filter_of(GOOD)),
}


async def _heard(door: Door, request: Any) -> Any:
    try:
        answer = await door.ask(request, 3, ROOT)
    except CLOSED:
        return "closed"
    if isinstance(request, CreateAclsRequest):
        return [_error(result) for result in answer.results]
    if isinstance(request, DeleteAclsRequest):
        return [[*_error(one), sorted(_words(acl) for acl in one.matching_acls)] for one in answer.filter_results]
    found = [(of.resource_name, Operation(acl.operation).name) for of in answer.resources for acl in of.acls]
    return [*_error(answer), sorted(map(list, found))]


def _error(result: Any) -> list[Any]:
    return [ErrorCode(result.error_code).name, result.error_message]


def _words(acl: Any) -> list[Any]:
    return [acl.resource_name, Operation(acl.operation).name, *_error(acl)]
