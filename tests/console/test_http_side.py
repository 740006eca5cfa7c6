"""What a broker tells over HTTP: the timeline of a transaction and faults, shown where there are any."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest

from tests.console.conftest import Shown
from tests.console.stage import ODD_ID
from tests.console.visitor import Visitor, address_in
from tests.unit.console.test_timeline import WHOLE, journal

TOKEN = "of-the-operator"


@dataclass
class Side:
    """The HTTP side of a broker, in words that it was given."""

    url: str
    armed: list[str] = field(default_factory=list)
    asked: list[Any] = field(default_factory=list)

    def answer(self, method: str, path: str, said: Any) -> tuple[int, object]:
        match method, path:
            case "GET", "/v1/control/faults/hits":
                return 200, {"hits": {"marker.before": 12}}
            case "POST", "/v1/control/faults" if said["point"] != "marker.before":
                return 400, {"error": f"there is no fault point {said['point']!r}"}
            case "POST", "/v1/control/faults":
                self.asked.append(said)
                self.armed.append(said["point"])
            case "DELETE", "/v1/control/faults":
                self.armed.clear()
            case "GET", _ if path.startswith("/v1/transactions/"):
                name = unquote(path.removeprefix("/v1/transactions/").removesuffix("/timeline"))
                return (200, journal(*WHOLE)) if name == ODD_ID else (409, {"error": "the journal is off"})
        return 200, {"armed": self.armed}


@pytest.fixture(scope="module")
def side() -> Iterator[Side]:
    class Answers(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, said = 401, {"error": "no token"}
            if self.headers["Authorization"] == f"Bearer {TOKEN}":
                status, said = made.answer(self.command, self.path, json.loads(body or "null"))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(said).encode())

        do_GET = do_POST = do_DELETE = _answer

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    made = Side(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def visitor(side: Side, shown: Shown, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visitor]:
    folder: Path = tmp_path_factory.mktemp("side")
    (folder / "token").write_text(TOKEN + "\n")
    words = ["--bootstrap-server", shown.bootstrap, "--port", "0", "--ready-file", str(folder / "ready")]
    words += ["--http", side.url, "--http-token-file", str(folder / "token"), "--end-with-stdin"]
    console = subprocess.Popen([sys.executable, "-m", "tallystick", "console", *words], stdin=subprocess.PIPE)
    try:
        yield Visitor(address_in(folder / "ready"))
    finally:
        console.communicate(timeout=30)


def test_the_steps_of_a_transaction_are_drawn_and_told(visitor: Visitor) -> None:
    page = visitor.get(f"/transaction?id={quote(ODD_ID, safe='')}")
    assert page.status == 200 and 'class="timeline"' in page.body
    assert "5 records into orders-0, offsets 5 to 9" in page.text
    assert "<title>commit markers in orders-0, orders-1</title>" in page.body
    assert "There is no timeline: the journal is off." in visitor.get("/transaction?id=checkout-1").text


def test_faults_are_set_and_cleared(side: Side, visitor: Visitor) -> None:
    assert "Nothing strikes." in visitor.get("/faults").text
    refused = visitor.submit("/faults", "/faults", how="set", point="no.such", action="crash", at="1", times="1")
    assert refused.status == 400 and "there is no fault point 'no.such'" in refused.text
    assert visitor.submit("/faults", "/faults", how="set", point="marker.before", action="x", at="soon").status == 400
    done = visitor.submit(
        "/faults", "/faults", how="set", point="marker.before", action="delay:50", topic="orders", at="2", times="*"
    )
    assert done.status == 303
    assert side.asked == [{"point": "marker.before", "action": "delay:50", "topic": "orders", "at": 2, "times": None}]
    page = visitor.get("/faults")
    assert '<span class="badge open">marker.before</span>' in page.body and "marker.before 12" in page.text
    assert visitor.submit("/faults", "/faults", how="clear").status == 303
    assert side.armed == []


def test_without_an_http_side_there_is_no_such_page(shown: Shown, visitor: Visitor) -> None:
    assert ">Faults</a>" in visitor.get("/").body
    without = shown.visitor()
    assert ">Faults</a>" not in without.get("/").body and without.get("/faults").status == 404
    assert "There is no timeline" not in without.get("/transaction?id=checkout-1").text
