"""A browser without eyes: it keeps cookies, follows forms, and sees the text of pages."""

import html
import http.client
import re
import time
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from tallystick.process import BrokerFailed

_SECONDS = 30.0


class Seen:
    """An answer."""

    def __init__(self, status: int, headers: http.client.HTTPMessage, body: str) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def text(self) -> str:
        """What a reader sees: without tags, in single spaces."""
        return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", self.body)).split())

    @property
    def rows(self) -> list[str]:
        """The table rows' texts."""
        found = re.findall(r"<tr\b.*?</tr>", self.body, re.DOTALL)
        return [Seen(self.status, self.headers, one).text for one in found]

    @property
    def form_token(self) -> str:
        found = re.search(r'name="form_token" value="([0-9a-f]+)"', self.body)
        assert found is not None, "there is a form on the page"
        return found[1]


class Visitor:
    """One browser."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.cookies: dict[str, str] = {}

    def get(self, path: str, **headers: str) -> Seen:
        return self._ask("GET", path, None, headers)

    def post(self, path: str, fields: dict[str, str], **headers: str) -> Seen:
        return self._ask(
            "POST", path, urlencode(fields), {"Content-Type": "application/x-www-form-urlencoded", **headers}
        )

    def submit(self, page: str, path: str, **fields: str) -> Seen:
        """Fill in the form of a page."""
        return self.post(path, {"form_token": self.get(page).form_token, **fields})

    def _ask(self, method: str, path: str, body: str | None, headers: dict[str, str]) -> Seen:
        cookies = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        connection = http.client.HTTPConnection(urlsplit(self.address).netloc, timeout=_SECONDS)
        try:
            connection.request(method, path, body, {"Cookie": cookies, **headers} if cookies else headers)
            answer = connection.getresponse()
            for one in answer.headers.get_all("Set-Cookie", []):
                name, _, value = one.partition(";")[0].partition("=")
                self.cookies[name] = value
            return Seen(answer.status, answer.headers, answer.read().decode())
        finally:
            connection.close()


def address_in(ready: Path) -> str:
    """Where a console serves, once it does."""
    deadline = time.monotonic() + _SECONDS
    while not ready.exists():
        if time.monotonic() > deadline:
            raise BrokerFailed("the console does not serve")
        time.sleep(0.01)
    return ready.read_text().strip().rstrip("/")
