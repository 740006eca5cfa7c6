"""Who a request came from, and what is counted of such a client.

Peers are told apart by connection; `Habits` are those of all connections of one client id of one program at one
address, for clients connect anew.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

LONGEST_NAME = 256
"""Of client ids, names of software and principals, no more than this is kept."""
MOST_CLIENTS = 2000
_TOO_LONG = "x" * (LONGEST_NAME + 1)
"""Stands for a client id that is not kept: no request has this very object."""


@dataclass(slots=True)
class Habits:
    """Counters of one client."""

    batches: int = 0
    records: int = 0
    bytes: int = 0
    plain_batches: int = 0
    """Those without a producer id: a retry may double them."""
    classic_ends: int = 0
    """Transactions that were ended as before KIP-890: EndTxn below version 5."""
    modern_ends: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Peer:
    """One connection under one client id."""

    client_id: str
    host: str
    port: int
    software_name: str
    software_version: str
    principal: str
    listener: str
    connection_id: int
    said_id: str | None
    """The client id as it came: the same object in the next request, as long as it is the same."""
    habits: Habits = field(repr=False)

    @property
    def as_json(self) -> dict[str, Any]:
        return {
            "clientId": self.client_id,
            "host": self.host,
            "port": self.port,
            "software": self.software_name,
            "version": self.software_version,
            "principal": self.principal,
            "listener": self.listener,
            "connection": self.connection_id,
        }


class Clients:
    """The habits of those who were heard of last."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, ...], tuple[Peer, Habits]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def all(self) -> list[tuple[Peer, Habits]]:
        """Each client by its latest connection, who was met last comes last."""
        return list(self._known.values())

    def met(
        self,
        *,
        client_id: str | None,
        host: str,
        port: int,
        software_name: str,
        software_version: str,
        principal: str,
        listener: str,
        connection_id: int,
    ) -> Peer:
        """A connection that says something for the first time, or under another name."""
        name, software = (client_id or "")[:LONGEST_NAME], software_name[:LONGEST_NAME]
        version, who = software_version[:LONGEST_NAME], principal[:LONGEST_NAME]
        key = (name, software, version, host, who)
        known = self._known.pop(key, None)
        habits = Habits() if known is None else known[1]
        said_id = client_id if client_id is None or len(client_id) <= LONGEST_NAME else _TOO_LONG
        peer = Peer(name, host, port, software, version, who, listener, connection_id, said_id, habits)
        self._known[key] = peer, habits
        if len(self._known) > MOST_CLIENTS:
            self._known.popitem(last=False)
        return peer
