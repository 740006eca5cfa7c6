"""What the socket of a client says of it."""

import asyncio

from broker.api.context import ConnectionInfo
from broker.disk.file_region import CAN_SEND_FILES


def note_socket(info: ConnectionInfo, transport: asyncio.BaseTransport) -> None:
    """Where the client is, and whether it may be sent what is still in files: not where that is encrypted."""
    peer = transport.get_extra_info("peername") or ("unknown", 0)
    socket = transport.get_extra_info("socket")
    encrypts = transport.get_extra_info("sslcontext") is not None
    info.sends_files = CAN_SEND_FILES and socket is not None and not encrypts
    info.descriptor = -1 if socket is None else socket.fileno()
    info.peer_host, info.peer_port = str(peer[0]), int(peer[1]) if len(peer) > 1 else 0
