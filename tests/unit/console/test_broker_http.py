"""The HTTP side of a broker on this machine is asked without a detour."""

import asyncio
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tallystick.console.reading.broker_http import BrokerHttp


def test_a_broker_on_this_machine_is_not_asked_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"armed": ["produce"]}')

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
            pass

    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9/")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        side = BrokerHttp(f"http://127.0.0.1:{server.server_port}", None)
        assert asyncio.run(side.armed()) == ["produce"]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
