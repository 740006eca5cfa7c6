"""The HTTP side of a broker, asked from a command: one GET, one JSON object."""

import http.client
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import click

PATIENCE_S = 20.0
MOST_BYTES = 64 << 20
NEEDED = (
    "needs the HTTP side of a Tallystick broker: start it with `tallystick serve --http 127.0.0.1:9644` and say "
    "`--http http://127.0.0.1:9644` (or set TALLYSTICK_HTTP). Apache Kafka notes nothing of the kind."
)
Said = dict[str, Any]
Command = Callable[..., None]


class NotTold(Exception):
    """Nothing was learned, in a sentence."""


def asking(command: Command) -> Command:
    """The options of a command that asks it: `http` and `http_token_file`, for `told`."""
    for option in (
        click.option(
            "--http-token-file",
            envvar="TALLYSTICK_HTTP_TOKEN_FILE",
            type=click.Path(exists=True, dir_okay=False),
            help="The token that the broker's HTTP side asks for.",
        ),
        click.option("--http", "http_url", envvar="TALLYSTICK_HTTP", help="The broker's HTTP side, http://host:port."),
    ):
        command = option(command)
    return command


def of_id(transactional_id: str, what: str) -> str:
    """The path of what is told of one transactional id."""
    return f"/v1/transactions/{quote(transactional_id, safe='')}/{what}"


def told(
    url: str,
    path: str,
    token_file: str | None,
    query: Mapping[str, object] | None = None,
    *,
    patience_s: float = PATIENCE_S,
) -> Said:
    """What the broker answers. Raises `NotTold`."""
    parts = urlsplit(url if "//" in url else f"//{url}")
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    try:
        connection = kind(
            parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80), timeout=patience_s
        )
        headers = {"Accept": "application/json"}
        if token_file is not None:
            headers["Authorization"] = f"Bearer {Path(token_file).read_text().strip()}"
        where = parts.path.rstrip("/") + path + (f"?{urlencode(query)}" if query else "")
        connection.request("GET", where, headers=headers)
        response = connection.getresponse()
        body, status = response.read(MOST_BYTES), response.status
        connection.close()
    except (OSError, ValueError, http.client.HTTPException) as problem:
        raise NotTold(f"{url} cannot be asked over HTTP: {problem or type(problem).__name__}") from None
    try:
        said = json.loads(body)
    except ValueError:
        said = None
    if status == 200 and isinstance(said, dict):
        return said
    if isinstance(said, dict) and "error" in said:
        raise NotTold(f"{url} answers: {said['error']}")
    raise NotTold(f"{url} is not the HTTP side of a Tallystick broker (it answers with status {status})")
