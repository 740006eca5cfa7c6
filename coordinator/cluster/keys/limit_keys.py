"""The table of keys that limit connections and what clients use: how many, how fast, for how long, and over which time
quotas are looked at. The quotas themselves are no settings (`coordinator.cluster.quotas`).
"""

import ipaddress

from coordinator.cluster.keys.config_types import ConfigValue, at_least, lets_somebody_in
from coordinator.cluster.keys.key_tables import INT, LONG, STRING, dynamic, fixed

INT_MAX = (1 << 31) - 1
PER_ADDRESS = "max.connections.per.ip.overrides"


def canonical_address(text: str) -> str | None:
    """An address as a connection shows it: one of IPv4 that is mapped into IPv6 is one of IPv4. None where it is none:
    names of hosts are not looked up."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def connections_by_address(text: str) -> dict[str, int]:
    """`10.0.0.1:5,::1:7` by address. Raises `ValueError`."""
    numbers: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        host, _, number = (one.strip() for one in part.rpartition(":"))
        address = canonical_address(host.removeprefix("[").removesuffix("]"))
        if address is None or not (number.isascii() and number.isdigit()) or len(number) > 10:
            raise ValueError(part)
        numbers[address] = int(number)
    return numbers


def are_connections_by_address(value: ConfigValue) -> str | None:
    """A list of addresses with numbers."""
    try:
        connections_by_address(str(value))
    except ValueError as problem:
        return f"Not an address and a number of connections: {problem}"
    return None


LIMIT_KEYS = (
    fixed("connections.max.idle.ms", LONG, "600000", "After how long a silent connection is closed.", at_least(-1)),
    dynamic("max.connections", INT, str(INT_MAX), "How many connections may be open.", lets_somebody_in),
    dynamic(
        "max.connections.per.ip", INT, str(INT_MAX), "How many connections one address may have.", lets_somebody_in
    ),
    dynamic(
        PER_ADDRESS,
        STRING,
        "",
        "How many single addresses may have instead, as address:number,...; 0 shuts one out.",
        are_connections_by_address,
    ),
    dynamic(
        "max.connection.creation.rate",
        INT,
        str(INT_MAX),
        "How many connections may be made in a second.",
        lets_somebody_in,
    ),
    fixed(
        "queued.max.request.bytes",
        LONG,
        "-1",
        "How many bytes of requests may be held at once; -1: our own limit.",
        at_least(-1),
    ),
    fixed("quota.window.num", INT, "11", "How many windows of time are looked at for a quota.", at_least(1)),
    fixed("quota.window.size.seconds", INT, "1", "How long each of them is.", at_least(1)),
    fixed(
        "controller.quota.window.num",
        INT,
        "11",
        "For how many windows of time mutations of the metadata may be saved up.",
        at_least(1),
    ),
    fixed("controller.quota.window.size.seconds", INT, "1", "How long each of them is.", at_least(1)),
)
