"""Connections that ask for nothing do not stay."""

import asyncio

import pytest

from tallystick.console.prompting import Prompt

pytest.importorskip("uvicorn")


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "])
def test_a_connection_without_a_request_is_ended(said: bytes) -> None:
    async def wait_until_ended() -> bytes:
        from uvicorn import Config
        from uvicorn.server import ServerState

        class Hurried(Prompt):
            looked_at_every_s = 0.01

        async def nothing(scope: object, receive: object, send: object) -> None:
            raise AssertionError("there is no request")

        made: list[Hurried] = []

        def protocol() -> Hurried:
            made.append(Hurried(Config(nothing, interface="asgi3", log_config=None), ServerState(), {}))
            return made[-1]

        server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(said)
            try:
                return await reader.read()
            except ConnectionResetError:
                return b""
            finally:
                writer.close()

    assert asyncio.run(asyncio.wait_for(wait_until_ended(), 30)) == b""
