"""One request, and what a page can do with it: ask the cluster, show a template, send the visitor elsewhere."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from errno import errorcode
from os import strerror
from typing import TypeVar
from urllib.parse import urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from tallystick.client.client import Client
from tallystick.console.cluster import Cluster
from tallystick.console.options import Options
from tallystick.console.reading.broker_http import BrokerHttp
from tallystick.console.rendering import Renderer
from tallystick.console.sessions import Session, Sessions
from tallystick.schemas.registry import Registry

T = TypeVar("T")
LARGEST_OFFSET = (1 << 63) - 1
SEE_OTHER = 303


@dataclass(slots=True)
class Watched:
    """How many streams of counters there are."""

    streams: int = 0


@dataclass(frozen=True, slots=True)
class Console:
    """What all visits share."""

    options: Options
    sessions: Sessions
    renderer: Renderer
    registry: Registry
    broker_http: BrokerHttp | None
    watched: Watched


class NotThere(Exception):
    """There is no such page; says why."""


def in_words(problem: Exception) -> str:
    """What hinders, in the words of the system where it is a connection that does not come about."""
    number = problem.errno if isinstance(problem, OSError) else None
    return str(problem) if number is None or number not in errorcode else f"{strerror(number)}."


@dataclass(frozen=True, slots=True)
class Visit:
    """See the head of this file."""

    request: Request
    console: Console
    token: str
    session: Session | None
    form: Mapping[str, str]

    @property
    def cluster(self) -> Cluster:
        assert self.session is not None, "pages are shown to those who are let in"
        return self.session.cluster

    async def ask(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Whatever the client raises is a page of its own (`application`)."""
        return await self.cluster.ask(work)

    def word(self, name: str) -> str:
        """Of the query; "" where it is not there."""
        return self.request.query_params.get(name, "").strip()

    def called(self, name: str) -> str:
        """Of the query, as it is: a group or a transactional id may begin or end with a space, and is another one
        without it."""
        return self.request.query_params.get(name, "")

    def number(self, name: str) -> int | None:
        """Of the query; None where it is not there, or no number that an offset or a timestamp can be."""
        text = self.word(name)
        return min(int(text), LARGEST_OFFSET) if text.isascii() and text.isdecimal() and len(text) < 30 else None

    def path(self, name: str) -> str:
        return str(self.request.path_params[name])

    def path_number(self, name: str) -> int:
        return int(self.request.path_params[name])

    def page(self, template: str, *, status: int = 200, **context: object) -> Response:
        """A template, with what every page has."""
        shared = {
            "path": self.request.url.path,
            "user": self.session.user if self.session is not None else None,
            "is_in": self.session is not None,
            "has_faults": self.session is not None and self.session.has_faults,
            "form_token": self.console.sessions.form_token(self.token),
            "bootstrap": self.console.options.bootstrap,
            "said": self._said(),
        }
        return HTMLResponse(self.console.renderer.page(template, shared | context), status, self._history())

    def _history(self) -> dict[str, str]:
        """What is typed into a search is one step of the browser's history, however many searches it takes: one that
        goes on takes the place of the one before it (htmx pushes what has no such header)."""
        url, before = self.request.url, urlsplit(self.request.headers.get("HX-Current-URL", ""))
        if before.path != url.path or not before.query:
            return {}
        return {"HX-Replace-Url": f"{url.path}?{url.query}"}

    def _said(self) -> str:
        """What a form of this visit has led to. Anybody can make a link that says something: what this console did
        not say itself is not shown as if it had."""
        said = self.word("said")
        return said if said and self.console.sessions.is_form_token(self._saying(said), self.word("by")) else ""

    def _saying(self, said: str) -> str:
        return f"{self.token}\n{said}"

    def to(self, path: str, **query: str | int) -> Response:
        """Elsewhere, behind a form."""
        if "said" in query:
            query["by"] = self.console.sessions.form_token(self._saying(str(query["said"]).strip()))
        return RedirectResponse(f"{path}?{urlencode(query)}" if query else path, SEE_OTHER)
