"""Why a broker hangs up at once: it speaks TLS where the client does not, or wants to know who the client is.

A broker says neither; it closes the connection, as one does that is being stopped. So it is tried.
"""

import asyncio
import ssl

from protocol.errors import ErrorCode
from protocol.messages.sasl import SaslHandshakeRequest, SaslHandshakeResponse
from tallystick.client.connection import Connection
from tallystick.client.errors import ConnectionLost, KafkaError, NoWayIn, UnsupportedByBroker
from tallystick.client.security import PLAINTEXT, Security

_PATIENCE_S = 5.0
_NOT_AT_ALL = (OSError, ConnectionLost, KafkaError, UnsupportedByBroker, NoWayIn, TimeoutError)


async def hung_up_because(host: str, port: int, security: Security) -> str | None:
    """A sentence without its end; None where no reason is found but that the broker is away."""
    where = f"{host}:{port}"
    speaks_plainly = await _answers(host, port, PLAINTEXT)
    if security.tls is not None and speaks_plainly:
        return f"{where} does not speak TLS: security.protocol is PLAINTEXT or SASL_PLAINTEXT there"
    if security.tls is None and not speaks_plainly:
        is_for_tls = await _speaks_tls(host, port)
        return f"{where} speaks TLS: security.protocol is SSL or SASL_SSL there" if is_for_tls else None
    if security.credentials is None and (wanted := await _mechanisms(host, port, security)):
        protocol = "SASL_PLAINTEXT" if security.tls is None else "SASL_SSL"
        return (
            f"{where} wants to know who the client is, by {', '.join(wanted)}: security.protocol is {protocol} there, "
            "with sasl.mechanism and sasl.jaas.config"
        )
    return None


async def _answers(host: str, port: int, security: Security) -> bool:
    try:
        connection = await asyncio.wait_for(Connection.connect(host, port, security=security), _PATIENCE_S)
    except _NOT_AT_ALL:
        return False
    connection.abort()
    return True


async def _mechanisms(host: str, port: int, security: Security) -> list[str]:
    """What a listener takes of SASL; nothing where it does not want it."""
    try:
        connection = await asyncio.wait_for(Connection.connect(host, port, security=security), _PATIENCE_S)
    except _NOT_AT_ALL:
        return []
    try:
        # A mechanism that nobody has: the response lists those that there are.
        shaken = await asyncio.wait_for(connection.ask(SaslHandshakeRequest(mechanism=""), 1), _PATIENCE_S)
    except _NOT_AT_ALL:
        return []
    finally:
        connection.abort()
    assert isinstance(shaken, SaslHandshakeResponse)
    return shaken.mechanisms if shaken.error_code != ErrorCode.ILLEGAL_SASL_STATE else []


async def _speaks_tls(host: str, port: int) -> bool:
    """Whether a handshake gets as far as the broker's certificate; nothing is said or believed over it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        _reader, writer = await asyncio.wait_for(asyncio.open_connection(host, port, ssl=context), _PATIENCE_S)
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "")
    except (OSError, TimeoutError):
        return False
    writer.transport.abort()
    return True
