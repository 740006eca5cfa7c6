"""What ends a start, because somebody has to mend it, and what is waited for, as the answer of a server tells them
apart.
"""

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from unittest import mock

import pytest

from broker.shared.bucket import Bucket, Place, Refusal
from storage.shared.store import StoreUnreachable
from tests.shared_store.objects.s3_server import environment

KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
MALFORMED = "the region 'us-east-1' is wrong; expecting 'eu-central-1'"
ASK: dict[str, Callable[[Bucket], Awaitable[object]]] = {
    "put": lambda bucket: bucket.put("a", b"x"),
    "get": lambda bucket: bucket.get("a", [(0, 1)]),
    "delete": lambda bucket: bucket.delete(["a"]),
    "list": lambda bucket: anext(bucket.names("folder")),
}


@contextmanager
def answering(status: int, code: str, message: str = "", headers: tuple[tuple[str, str], ...] = ()) -> Iterator[int]:
    """A server that answers everything so, and its port."""
    body = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode() if code else b""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *arguments: object) -> None:
            """Nobody wants to know."""

        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response_only(status)
            for name, value in (*headers, ("Content-Length", str(len(body)))):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PUT = do_POST = do_DELETE = answer

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def said_of(variables: dict[str, str], asked: str = "put") -> StoreUnreachable:
    """How a bucket cannot be reached that is named by these variables alone."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    with mock.patch.dict(os.environ, others | variables, clear=True):
        bucket = Bucket(Place("s3://bucket/folder"))
        bucket._again = bucket._once  # What is asked again is the same.

        async def story() -> None:
            await ASK[asked](bucket)

        with pytest.raises(StoreUnreachable) as raised:
            asyncio.run(story())
    return raised.value


@pytest.mark.parametrize("asked", list(ASK))
@pytest.mark.parametrize(
    ("status", "code", "sentence"),
    [
        (301, "PermanentRedirect", "is in another region than AWS_REGION says"),
        (400, "AuthorizationHeaderMalformed", f"refuses what it is asked: AuthorizationHeaderMalformed: {MALFORMED}"),
        (400, "ExpiredToken", "refuses what it is asked: ExpiredToken"),
        (403, "InvalidAccessKeyId", "refuses these credentials: InvalidAccessKeyId"),
    ],
)
def test_what_somebody_has_to_mend_is_a_refusal(status: int, code: str, sentence: str, asked: str) -> None:
    message = MALFORMED if "Malformed" in code else ""
    with answering(status, code, message) as port:
        said = said_of(environment(port), asked)
    assert isinstance(said, Refusal) and str(said).startswith(f"s3://bucket/folder {sentence}")


@pytest.mark.parametrize(
    ("status", "code"), [(400, "RequestTimeout"), (429, "TooManyRequests"), (500, "InternalError"), (503, "SlowDown")]
)
def test_what_passes_is_waited_for(status: int, code: str) -> None:
    with answering(status, code) as port:
        said = said_of(environment(port))
    assert not isinstance(said, Refusal) and str(said).startswith(f"s3://bucket/folder: {code}")


def test_a_bucket_that_nobody_redirects_for_good_is_waited_for() -> None:
    """A new bucket is found so, for a while."""
    with answering(307, "TemporaryRedirect", headers=(("Location", "http://127.0.0.1:1/"),)) as port:
        assert not isinstance(said_of(environment(port)), Refusal)


def test_who_names_no_credentials_is_told_so() -> None:
    """The machine would give those of its role, and does not."""
    with answering(404, "") as port:
        without = {name: value for name, value in environment(port).items() if name not in KEYS}
        said = said_of(without | {"AWS_METADATA_ENDPOINT": f"http://127.0.0.1:{port}"})
    assert isinstance(said, Refusal)
    assert str(said).startswith("no credentials for s3://bucket/folder: the environment names no keys, and of a role: ")


def test_a_token_of_a_role_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with answering(404, "") as port:
        without = {name: value for name, value in environment(port).items() if name not in KEYS}
        named = {"AWS_WEB_IDENTITY_TOKEN_FILE": str(tmp_path / "token"), "AWS_ROLE_ARN": "arn:of:role"}
        said = said_of(without | named)
    assert isinstance(said, Refusal) and "Failed to read token file" in str(said)


def test_the_same_is_said_whenever_the_same_has_happened() -> None:
    """Whoever waits says what has changed: neither how long it took nor which object it was for is that."""
    with answering(503, "") as port:
        variables = environment(port)
        assert (
            str(said_of(variables))
            == str(said_of(variables))
            == (
                f"s3://bucket/folder: Generic S3 error: PUT at http://127.0.0.1:{port}: "
                "Server returned non-2xx status code: 503 Service Unavailable"
            )
        )
    listed = str(said_of(variables, "list"))
    assert listed == (
        f"s3://bucket/folder: Generic S3 error: Error performing list request: GET at http://127.0.0.1:{port}: "
        "HTTP error: error sending request"
    )
