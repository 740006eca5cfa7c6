"""The console as an ASGI application: the table of its pages, and what happens around each of them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from protocol.errors import ErrorCode, ProtocolError
from protocol.records.batch import CorruptRecords
from tallystick.client.errors import ConnectionLost, KafkaError, NotAuthenticated, NoWayIn, UnsupportedByBroker
from tallystick.console.guarding import Guard
from tallystick.console.options import Options
from tallystick.console.pages import (
    faults,
    groups,
    live,
    login,
    messages,
    overview,
    producers,
    settings,
    topic_changes,
    topics,
    transactions,
)
from tallystick.console.reading.broker_http import BrokerHttp, HttpFailed
from tallystick.console.rendering import Renderer
from tallystick.console.sessions import Sessions
from tallystick.console.visit import LARGEST_OFFSET, Console, NotThere, Visit, Watched, in_words
from tallystick.schemas.registry import Registry

Page = Callable[[Visit], Awaitable[Response]]
LARGEST_FORM_BYTES = 32_000
"""No field of it is longer than a string of Kafka's protocol may be."""
_FORM_WITHIN_S = 20.0
_MOST_FIELDS = 50
_TOPIC = "/topics/{topic}"
_PARTITION = _TOPIC + "/partitions/{partition:offset}"


class _Offset(Convertor[int]):
    """A number in an address, of so many digits as an offset has at most."""

    regex = "[0-9]{1,19}"

    def convert(self, value: str) -> int:
        return min(int(value), LARGEST_OFFSET)

    def to_string(self, value: int) -> str:
        return str(value)


register_url_convertor("offset", _Offset())


@dataclass(frozen=True, slots=True)
class Place:
    """A page, where it is, and whether it changes something."""

    path: str
    page: Page
    changes: bool = False
    is_open: bool = False
    """Whether it is shown to those who have not logged in."""


PLACES = (
    Place("/", overview.show),
    Place("/topics", topics.listed),
    Place("/topics", topic_changes.create, changes=True),
    Place("/new-topic", topic_changes.form),
    Place(_TOPIC, topics.described),
    Place(_TOPIC + "/configs", topics.configs),
    Place(_TOPIC + "/configs", topic_changes.configure, changes=True),
    Place(_TOPIC + "/producers", producers.show),
    Place(_TOPIC + "/delete", topic_changes.confirm),
    Place(_TOPIC + "/delete", topic_changes.delete, changes=True),
    Place(_PARTITION, messages.browsed),
    Place(_PARTITION + "/records/{offset:offset}", messages.one),
    Place(_PARTITION + "/abort", transactions.confirm_in_partition),
    Place(_PARTITION + "/abort", transactions.abort_in_partition, changes=True),
    Place("/groups", groups.listed),
    Place("/group", groups.described),
    Place("/transactions", transactions.listed),
    Place("/transaction", transactions.described),
    Place("/transaction/abort", transactions.confirm),
    Place("/transaction/abort", transactions.abort, changes=True),
    Place("/faults", faults.show),
    Place("/faults", faults.change, changes=True),
    Place("/settings", settings.show),
    Place("/settings", settings.change, changes=True),
    Place("/live/cluster", live.of_cluster),
    Place("/live/topic", live.of_topic),
    Place("/live/group", live.of_group),
    Place("/login", login.form, is_open=True),
    Place("/login", login.enter, changes=True, is_open=True),
    Place("/logout", login.leave, changes=True, is_open=True),
)


def application(options: Options) -> Starlette:
    """The whole of it. Raises `BadSettings`, `ValueError` or `OSError` where what it was given cannot be used."""
    http = BrokerHttp(options.http_url, options.http_token_file) if options.http_url else None
    console = Console(options, Sessions(options), Renderer(), Registry(options.registry_url), http, Watched())

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await console.sessions.close()

    routes: list[BaseRoute] = [
        Route(one.path, _served(console, one), methods=["POST" if one.changes else "GET"]) for one in PLACES
    ]
    routes.append(Mount("/static", StaticFiles(directory=Path(__file__).parent / "static")))

    async def missing(request: Request, problem: Exception) -> Response:
        assert isinstance(problem, HTTPException)
        visit = await _visit(console, request, {})
        return _failed(visit, problem.status_code, "There is no such page.", problem.detail)

    return Starlette(
        routes=routes,
        lifespan=lifespan,
        middleware=[Middleware(Guard, options=options)],
        exception_handlers={HTTPException: missing},
    )


def _served(console: Console, place: Place) -> Callable[[Request], Awaitable[Response]]:
    async def served(request: Request) -> Response:
        form = await _form(request) if place.changes else {}
        visit = await _visit(console, request, form or {})
        response = await _answer(visit, place, form)
        login.keep(visit, response)
        return response

    return served


async def _answer(visit: Visit, place: Place, form: dict[str, str] | None) -> Response:
    if form is None:
        return _failed(
            visit,
            413,
            "That is too much, or came too slowly.",
            f"A form has at most {LARGEST_FORM_BYTES} bytes of UTF-8 and {_MOST_FIELDS} fields.",
        )
    if place.changes and not visit.console.sessions.is_form_token(visit.token, form.get("form_token", "")):
        return _failed(visit, 403, "That form is not of this visit.", "Open the page anew and try again.")
    if visit.session is None and not place.is_open:
        return login.ask(visit)
    try:
        if not place.is_open:
            await faults.is_offered(visit)
        return await place.page(visit)
    except HttpFailed as problem:
        return _failed(visit, 502, "The broker does not say that over HTTP.", str(problem))
    except NotThere as problem:
        return _failed(visit, 404, "There is no such thing.", str(problem))
    except KafkaError as problem:
        status = _STATUS.get(problem.code, 502)
        return _failed(visit, status, _TITLES.get(status, "The broker says no."), str(problem))
    except (CorruptRecords, ProtocolError) as problem:
        return _failed(visit, 502, "The broker's answer cannot be read.", str(problem))
    except UnsupportedByBroker as problem:
        return _failed(visit, 501, "The broker cannot say that.", str(problem))
    except NotAuthenticated:
        await visit.console.sessions.log_out(visit.token)
        return login.ask(visit)
    except (ConnectionLost, NoWayIn, OSError) as problem:
        return _failed(visit, 503, "The cluster is out of reach.", in_words(problem))


_STATUS: dict[int, int] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 404,
    ErrorCode.GROUP_ID_NOT_FOUND: 404,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: 404,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: 403,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: 403,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: 403,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: 403,
    ErrorCode.INVALID_REQUEST: 400,
    ErrorCode.INVALID_CONFIG: 400,
    ErrorCode.INVALID_TOPIC_EXCEPTION: 400,
    ErrorCode.INVALID_PARTITIONS: 400,
    ErrorCode.TOPIC_ALREADY_EXISTS: 409,
}


_TITLES = {404: "There is no such thing.", 403: "This user may not see or do that."}


def _failed(visit: Visit, status: int, title: str, sentence: str) -> Response:
    again, query = visit.request.url.path, visit.request.url.query
    if query and visit.request.method == "GET":
        again += f"?{query}"
    return visit.page("failed.html", status=status, title=title, sentence=sentence, again=again)


async def _visit(console: Console, request: Request, form: dict[str, str]) -> Visit:
    token = request.cookies.get(login.cookie_name(console.options), "") or console.sessions.fresh_token()
    return Visit(request, console, token, await console.sessions.of(token), form)


async def _form(request: Request) -> dict[str, str] | None:
    """None where it is too long or too slow, or has too many fields."""
    body = bytearray()
    try:
        async with asyncio.timeout(_FORM_WITHIN_S):
            async for piece in request.stream():
                body += piece
                if len(body) > LARGEST_FORM_BYTES:
                    return None
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_MOST_FIELDS))
    except (TimeoutError, ValueError):
        return None
