"""Connections to one PostgreSQL, a few of them; asyncpg is imported here only.

Rule 1. No statement is ever cancelled: who stops waiting leaves it to its end. PostgreSQL would answer a cancelled wait
        for the standby with "committed", and the commit may be on the primary alone.
Rule 2. A statement whose answer is lost is `Lost`: nobody knows what became of it. What is raised as `StoreUnreachable`
        was never done.
Rule 3. A warning of the server is an answer lost, too: it says that the standby was not waited for.
Rule 4. A connection is used when it was greeted: it is one of a primary that has what was acknowledged.
Rule 5. A connection is one session of the server, for as long as it lasts. A pooler gives what stands between two
        transactions to others: statements that were prepared, what was set (Rule 3's warnings among it), who listens.
        None is taken, for nobody can ask one how it is set up.
"""

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Protocol
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit

from storage.shared.store import StoreRefused, StoreUnreachable

try:
    import asyncpg
except ModuleNotFoundError:
    asyncpg = None

DEFAULT_SCHEMA = "tallystick"
CONNECT_TIMEOUT_S = 5
"""For each server that the URL names."""
SILENT_PEER_MS = 15_000
"""A host that is gone says nothing: this long, and the connection is taken for lost."""
FILES = ("sslrootcert", "sslcert", "sslkey", "sslcrl")
"""What an address may name."""

_PREPARE = """
SELECT set_config(name, wanted, false) FROM pg_settings JOIN (VALUES
    ('statement_timeout', '0'), ('lock_timeout', '0'), ('transaction_timeout', '0'), ('idle_session_timeout', '0'),
    ('client_min_messages', 'notice'), ('synchronous_commit', 'on'),
    ('tcp_keepalives_idle', '5'), ('tcp_keepalives_interval', '5'), ('tcp_keepalives_count', '2'),
    ('tcp_user_timeout', '15000')
) AS ours (name, wanted) USING (name)
WHERE NOT (name = 'synchronous_commit' AND setting = 'remote_apply')
"""
"""Whatever the role or the database has: no time limit, never less than durable, and warnings are said (Rule 3). A node
whose machine is gone keeps its connections, and what it has locked, no longer than a server that is gone keeps ours."""

_POOLED = (
    "A pooler (PgBouncer, for one) stands between this node and PostgreSQL: a node keeps its few sessions, and they "
    "have to be its own. Give it the address of the database itself."
)
_UNREADABLE = (
    "The address of the database cannot be read: a port that is no number up to 65535, or a character in the name or "
    "the password that has to be written as %XX."
)
_READ_ONLY = "PostgreSQL: it takes no writes: it is a standby, or the role or the database is read-only"
_REFUSED_TLS = "rejected SSL upgrade"
"""What asyncpg says of it."""
_NO_DATABASE = "What answers there is no PostgreSQL."
_OF_POOLERS = "startup parameter"
"""What PgBouncer says of settings that it does not know."""


class Lost(Exception):
    """The answer to a statement was lost."""


class Broken(Exception):
    """A constraint of the tables does not hold: the caller has a bug, and nothing has happened."""


class Row(Protocol):
    """One row of an answer."""

    def __getitem__(self, key: str) -> Any: ...


class Connection(Protocol):
    """What is used of asyncpg's."""

    async def fetch(self, query: str, *arguments: object) -> list[Row]: ...

    async def execute(self, query: str) -> str: ...

    async def close(self, *, timeout: float) -> None: ...

    def transaction(self) -> Any: ...

    def is_closed(self) -> bool: ...

    def terminate(self) -> None: ...

    def get_server_pid(self) -> int: ...


class Address:
    """A database as a URL of libpq names it; `schema` among its parameters is ours."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        parameters = parse_qsl(parts.query, keep_blank_values=True)
        schemas = [value for name, value in parameters if name == "schema"]
        self.schema = schemas[-1] if schemas else DEFAULT_SCHEMA
        if not (self.schema.isascii() and self.schema.isidentifier() and self.schema == self.schema.lower()):
            raise StoreRefused(f"{self.schema!r} is no name for a schema: letters in lower case, digits, underscores")
        rest = [(name, value) for name, value in parameters if name != "schema"]
        for name, path in rest:
            if name in FILES and not os.access(path, os.R_OK):
                raise StoreRefused(f"{name} in the address of the database: there is no file {path!r} to be read")
        names = {name for name, _ in rest}
        self.wants_attributes = "target_session_attrs" in names
        self.wants_tls = "sslmode" in names or "PGSSLMODE" in os.environ
        self.urls = _of_each_host(parts, dict(rest))
        """The one that was reached last is in front."""


def _of_each_host(parts: SplitResult, parameters: dict[str, str]) -> list[str]:
    """The same URL with one host, and its port, of those that it names. As it is, where they do not fit together."""
    login, at, in_front = parts.netloc.rpartition("@")
    hosts = (in_front or parameters.get("host", "")).split(",")
    ports = parameters.get("port", "").split(",")
    if len(ports) not in (1, len(hosts)):
        return [urlunsplit(parts._replace(query=urlencode(parameters)))]
    urls = []
    for number, host in enumerate(hosts):
        named = parameters | ({"port": ports[number]} if len(ports) > 1 else {})
        named |= {"host": host} if "host" in parameters and not in_front else {}
        netloc = login + at + host if in_front else parts.netloc
        urls.append(urlunsplit(parts._replace(netloc=netloc, query=urlencode(named))))
        _check_port(urls[-1])
    return urls


def _check_port(url: str) -> None:
    """Raises `StoreRefused`, without what is wrong: it may be a piece of a password."""
    try:
        urlsplit(url).port  # noqa: B018  that it can be read is what is asked
    except ValueError:
        raise StoreRefused(_UNREADABLE) from None


class Connections:
    """At most `size` connections; with one, statements happen in the order in which they were asked for."""

    def __init__(self, address: Address, size: int, greet: Callable[[Connection], Awaitable[None]]) -> None:
        self._address = address
        self._greet = greet
        self._free = asyncio.Semaphore(size)
        self._idle: list[_Greeted] = []
        self._all: set[_Greeted] = set()
        self._under_way: set[asyncio.Task[list[Row]]] = set()
        self._connecting: set[asyncio.Task[_Greeted]] = set()
        self._closed = False

    async def ask(self, query: str, *arguments: object) -> list[Row]:
        """Raises `StoreUnreachable`, `StoreRefused`, `Lost` and `Broken`."""
        task = asyncio.get_running_loop().create_task(self._ask(query, arguments))
        self._under_way.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    def _ended(self, task: "asyncio.Task[list[Row]]") -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # it may be that nobody waits for it any more

    async def _ask(self, query: str, arguments: tuple[object, ...]) -> list[Row]:
        async with self._free:
            if self._closed:
                raise StoreUnreachable("the connections are closed")
            one = await self._greeted()
            try:
                return await one.ask(query, arguments)
            finally:
                if one.connection.is_closed():
                    self._all.discard(one)
                else:
                    self._idle.append(one)

    async def _greeted(self) -> "_Greeted":
        while self._idle:
            one = self._idle.pop()
            if not one.connection.is_closed():
                return one
            self._all.discard(one)
        connecting = asyncio.get_running_loop().create_task(self._connect())
        self._connecting.add(connecting)
        connecting.add_done_callback(self._connecting.discard)
        await asyncio.wait([connecting])
        if connecting.cancelled():
            raise StoreUnreachable("the connections are closed")
        one = connecting.result()
        self._all.add(one)
        return one

    async def _connect(self) -> "_Greeted":
        connection = await connect(self._address)
        try:
            await self._greet(connection)
            return _Greeted(connection)
        except BaseException as error:
            connection.terminate()
            raise translated(error, was_sent=False) from error

    async def close(self) -> None:
        """What is under way loses its answer."""
        self._closed = True
        for connecting in self._connecting:
            connecting.cancel()
        for one in list(self._all):
            one.connection.terminate()
        if self._under_way:
            await asyncio.wait(list(self._under_way))
        for one in list(self._all):
            one.connection.terminate()


class _Greeted:
    """A connection that is in use, and whether its server has warned."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._warnings: list[str] = []
        add_listener: Callable[[Callable[[Connection, Any], None]], None] = getattr(connection, "add_log_listener")  # noqa: B009
        add_listener(self._heard)

    def _heard(self, _: Connection, message: Any) -> None:
        if message.severity_en == "WARNING":
            self._warnings.append(str(message))

    async def ask(self, query: str, arguments: tuple[object, ...]) -> list[Row]:
        self._warnings.clear()
        try:
            rows = await self.connection.fetch(query, *arguments)
        except Exception as error:
            raised = translated(error, was_sent=True)
            if not isinstance(raised, Broken):
                self.connection.terminate()
            raise raised from error
        if self._warnings:
            raise Lost(self._warnings[0])
        return rows


async def connect(address: Address) -> Connection:
    """A connection to a server that can be written to. Raises `StoreUnreachable` and `StoreRefused`."""
    if asyncpg is None:
        raise StoreRefused("A store in PostgreSQL needs asyncpg: pip install 'tallystick[postgresql]'.")
    *others, last = address.urls
    for url in others:
        with contextlib.suppress(StoreUnreachable):
            return await _connected(address, url)
    return await _connected(address, last)


async def _connected(address: Address, url: str) -> Connection:
    """asyncpg would give all hosts of a URL one time between them: behind one that says nothing none is asked."""
    try:
        connection: Connection = await asyncpg.connect(
            url,
            timeout=CONNECT_TIMEOUT_S,
            server_settings={
                "search_path": address.schema,
                "application_name": "tallystick",
                "default_transaction_isolation": "read committed",
                "jit": "off",
            },
            **({} if address.wants_attributes else {"target_session_attrs": "read-write"}),
        )
    except Exception as error:
        raise _not_connected(error, address) from error
    try:
        _notice_silent_peers(connection)
        await _check_session(connection)
        await connection.fetch(_PREPARE)
    except BaseException as error:
        connection.terminate()
        raise translated(error, was_sent=False) from error
    address.urls.sort(key=lambda one: one != url)
    return connection


def _not_connected(error: Exception, address: Address) -> BaseException:
    if isinstance(error, asyncpg.exceptions.TargetServerAttributeNotMatched):
        return StoreUnreachable(_READ_ONLY)
    if _REFUSED_TLS in str(error) and not address.wants_tls:  # A server that speaks none is asked without.
        return StoreUnreachable(_NO_DATABASE)
    return translated(error, was_sent=False)


async def _check_session(connection: Connection) -> None:
    """Rule 5: who serves it is who has said so when it was made. Asked without preparing anything. Raises
    `StoreRefused`."""
    answered = await connection.execute(f"SELECT WHERE pg_backend_pid() = {connection.get_server_pid()}")
    if answered != "SELECT 1":
        raise StoreRefused(_POOLED)


def _notice_silent_peers(connection: Connection) -> None:
    """Without it a commit waits for a quarter of an hour for a host without power."""
    its_socket = getattr(connection, "_transport").get_extra_info("socket")  # noqa: B009
    if its_socket is None or its_socket.family not in (socket.AF_INET, socket.AF_INET6):
        return
    its_socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 2, "TCP_USER_TIMEOUT": SILENT_PEER_MS}
    for name, value in options.items():
        if hasattr(socket, name):  # Linux has all of them
            its_socket.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def translated(error: BaseException, *, was_sent: bool) -> BaseException:
    """What to raise. An error that ended a statement but not its connection says that nothing has happened."""
    if not isinstance(error, Exception) or isinstance(error, StoreRefused | StoreUnreachable | Lost):
        return error
    if isinstance(error, asyncpg.PostgresError) and getattr(error, "severity_en", None) == "ERROR":
        code = str(error.sqlstate)
        if code.startswith("23") or code == "22003":
            return Broken(str(error))
        if code[:2] in ("25", "40", "53", "55", "57", "58"):
            return StoreUnreachable(str(error))
        return StoreRefused(f"PostgreSQL: {error}")
    if isinstance(error, asyncpg.ProtocolViolationError) and _OF_POOLERS in str(error):
        return StoreRefused(_POOLED)
    if isinstance(error, asyncpg.PostgresError) and str(error.sqlstate)[:2] in ("28", "3D", "42"):
        return StoreRefused(f"PostgreSQL: {error}")
    if isinstance(error, asyncpg.InterfaceError) and isinstance(error, ValueError) and was_sent:
        return Broken(str(error))  # an argument that cannot be encoded
    if isinstance(error, asyncpg.exceptions.ClientConfigurationError):
        return StoreRefused(f"PostgreSQL: {error}")
    if not was_sent and (said := _said_of_tls(error)) is not None:
        return StoreRefused(said)
    if isinstance(error, ValueError) and not was_sent:
        return StoreRefused(_UNREADABLE)  # What is wrong may be a piece of a password: it is not said.
    if isinstance(error, asyncpg.PostgresError | asyncpg.InterfaceError | asyncpg.InternalClientError | OSError):
        said = str(error) or "it does not answer"  # A time that is over has no words.
        return Lost(said) if was_sent else StoreUnreachable(f"PostgreSQL: {said}")
    return error


def _said_of_tls(error: Exception) -> str | None:
    """What somebody has to mend before the two may speak; None where it is something else."""
    if isinstance(error, ConnectionError) and _REFUSED_TLS in str(error):
        return "The database speaks no TLS, and the address of the database (sslmode) wants it."
    # The server looks at our certificate when its own side of the handshake is over.
    cause = error.__cause__ if isinstance(error, asyncpg.ConnectionDoesNotExistError) else error
    if not isinstance(cause, ssl.SSLError):
        return None
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"The certificate of the database is refused (sslmode, sslrootcert): {cause.verify_message}"
    reason = str(cause.reason)
    if cause.library == "X509":
        return f"What the address of the database names as sslrootcert, sslcert or sslkey cannot be used: {reason}"
    if "CERTIFICATE" in reason or "UNKNOWN_CA" in reason:
        return f"The database refuses the certificate of this node (sslcert): {reason}"
    return None
