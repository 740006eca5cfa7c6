"""The table of keys that say who may do what."""

from coordinator.cluster.keys.config_types import ConfigValue, one_of
from coordinator.cluster.keys.key_tables import BOOLEAN, STRING, fixed

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def _names_principals(value: ConfigValue) -> str | None:
    """`Type:name`, several of them with `;` in between: a name may hold a comma."""
    parts = [part.strip() for part in str(value).split(";") if part.strip()]
    wrong = [part for part in parts if not all(part.partition(":"))]
    return f"expected a string in format principalType:principalName but got {wrong[0]}" if wrong else None


ACCESS_KEYS = (
    fixed(
        "authorizer.class.name",
        STRING,
        "",
        "What decides who may do what: Kafka's StandardAuthorizer, that is ACLs in the metadata log; nothing if empty.",
        one_of("", STANDARD_AUTHORIZER, "StandardAuthorizer"),
    ),
    fixed(
        "super.users",
        STRING,
        "",
        "Principals that may do everything, whatever ACLs say: User:one;User:two.",
        _names_principals,
    ),
    fixed(
        "allow.everyone.if.no.acl.found",
        BOOLEAN,
        "false",
        "Whether a resource that has no ACL at all is open to everybody.",
    ),
)
