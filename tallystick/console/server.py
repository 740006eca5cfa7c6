"""The process of a console: where it listens, and when it ends.

Started beside a broker (`tallystick serve --console`) it holds the reading end of a pipe as its standard input. The
other end is the broker's: however that one ends, kill -9 included, the pipe does, and the console with it.
"""

import asyncio
import os
import socket
import sys
from dataclasses import replace

import uvicorn

from tallystick.console.application import application
from tallystick.console.options import Options
from tallystick.console.prompting import Prompt

_CONNECTIONS = 200
_LAST_WORDS_S = 1
"""How long streams of counters are waited for at the end."""


def serve(options: Options) -> None:
    """Until a signal, or the end of whoever started this. Raises `OSError` where it cannot listen, `BadSettings` where
    the cluster cannot be spoken to like this."""
    listening = _bound(options.host, options.port)
    options = replace(options, port=listening.getsockname()[1])
    config = uvicorn.Config(
        application(options),
        access_log=False,
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_CONNECTIONS,
        http=Prompt,
        timeout_graceful_shutdown=_LAST_WORDS_S,
        ssl_certfile=options.certificate,
        ssl_keyfile=options.key,
        lifespan="on",
        ws="none",
    )
    with asyncio.Runner() as runner:
        runner.run(_serve(options, uvicorn.Server(config), listening))


async def _serve(options: Options, server: uvicorn.Server, listening: socket.socket) -> None:
    if options.ends_with_stdin:
        _end_with_stdin(server)
    serving = asyncio.create_task(server.serve([listening]))
    scheme = "https" if options.is_encrypted else "http"
    host = f"[{options.host}]" if ":" in options.host else options.host
    address = f"{scheme}://{host}:{options.port}/"
    if options.ready_file is not None:
        new = options.ready_file.with_name(options.ready_file.name + ".new")
        new.write_text(address + "\n")
        os.replace(new, options.ready_file)
    sys.stdout.write(f"tallystick console of {options.bootstrap}: {address}\n")
    sys.stdout.flush()
    await serving


def _bound(host: str, port: int) -> socket.socket:
    """Listening already: whoever reads the address may connect at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen()
    except OSError:
        listening.close()
        raise
    return listening


def _end_with_stdin(server: uvicorn.Server) -> None:
    loop, stdin = asyncio.get_running_loop(), sys.stdin.fileno()

    def heard() -> None:
        if not os.read(stdin, 1024):
            loop.remove_reader(stdin)
            server.should_exit = True

    loop.add_reader(stdin, heard)
