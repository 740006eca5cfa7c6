"""A console that a broker starts beside itself: it lets in whom the broker lets in, and ends with it."""

import http.client
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.console.visitor import Visitor, address_in
from tests.harness.broker import KAFKA
from tests.harness.confluent import make_topic
from tests.harness.secure_broker import SecureBroker, sasl_settings, secure_broker

USERS = {"alice": "alice-secret", "bob": "bob-secret"}
ACLS = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
CONSOLE = {"tallystick.console": "127.0.0.1:0"}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    """Alice may do everything, bob nothing."""
    if KAFKA:
        pytest.skip("Apache Kafka has no console")
    settings = sasl_settings(USERS) | ACLS | CONSOLE | {"super.users": "User:alice;User:ANONYMOUS"}
    made = secure_broker(tmp_path_factory.mktemp("secured"), settings)
    try:
        make_topic(made.open_bootstrap, "secrets")
        yield made
    finally:
        made.process.close()


@pytest.fixture
def visitor(secured: SecureBroker) -> Visitor:
    return Visitor(address_in(secured.process.folder / "ready.console"))


def log_in(visitor: Visitor, user: str, password: str, then: str = "/") -> None:
    done = visitor.submit("/login", "/login", user=user, password=password, then=then)
    assert done.status == 303, done.text


def test_nothing_is_shown_before_somebody_has_logged_in(visitor: Visitor) -> None:
    asked = visitor.get("/topics?q=s")
    assert (asked.status, asked.headers["Location"]) == (303, "/login?then=%2Ftopics%3Fq%3Ds")
    assert visitor.get("/live/cluster").status == 401
    form = visitor.get("/login")
    assert "secrets" not in form.body and "/topics" not in form.body
    assert visitor.post("/topics", {"form_token": form.form_token, "name": "by-a-stranger"}).status == 401
    (cookie,) = asked.headers.get_all("Set-Cookie", [])
    assert "HttpOnly" in cookie and "SameSite=lax" in cookie


def test_a_wrong_password_is_refused_and_the_right_one_leads_on(visitor: Visitor) -> None:
    refused = visitor.submit("/login", "/login", user="alice", password="guessed", then="/")
    assert refused.status == 401 and "does not let this user in" in refused.text
    before = dict(visitor.cookies)
    done = visitor.submit("/login", "/login", user="alice", password="alice-secret", then="/topics?q=s")
    assert (done.status, done.headers["Location"]) == (303, "/topics?q=s")
    assert visitor.cookies != before, "a secret that was known before the login is worth nothing behind it"
    page = visitor.get("/topics?q=s")
    assert "secrets" in page.text and "alice" in page.text


def test_nobody_is_led_elsewhere_by_a_link_to_the_form(visitor: Visitor) -> None:
    for then in ("https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)"):
        done = visitor.submit("/login", "/login", user="alice", password="alice-secret", then=then)
        assert done.headers["Location"] == "/"
        visitor.cookies.clear()


def test_a_user_sees_and_does_what_the_broker_lets_this_user(visitor: Visitor) -> None:
    log_in(visitor, "bob", "bob-secret")
    assert "There is no topic yet, or none that bob may see." in visitor.get("/topics").text
    assert visitor.get("/topics/secrets").status == 403
    assert visitor.get("/topics/secrets/partitions/0").status == 403
    made = visitor.submit("/new-topic", "/topics", name="by-bob", partitions="1", replication_factor="1")
    assert made.status == 400 and "AUTHORIZATION_FAILED" in made.text
    log_out = visitor.submit("/new-topic", "/logout")
    assert log_out.status == 303
    assert visitor.get("/topics").status == 303


def test_a_cookie_of_before_the_logout_is_worth_nothing(visitor: Visitor) -> None:
    log_in(visitor, "alice", "alice-secret")
    kept = dict(visitor.cookies)
    visitor.submit("/new-topic", "/logout")
    visitor.cookies = kept
    assert visitor.get("/topics").status == 303


def test_counters_of_a_session_end_with_it(visitor: Visitor) -> None:
    log_in(visitor, "alice", "alice-secret")
    watching = http.client.HTTPConnection(urlsplit(visitor.address).netloc, timeout=30)
    try:
        cookie = "; ".join(f"{name}={value}" for name, value in visitor.cookies.items())
        watching.request("GET", "/live/cluster", headers={"Cookie": cookie})
        stream = watching.getresponse()
        assert b'"rate"' in stream.readline()
        visitor.submit("/new-topic", "/logout")
        assert [line for line in stream.read().split(b"\n") if line][-1].endswith(b'"over": true}')
    finally:
        watching.close()


def test_a_search_without_a_session_leads_to_the_login(visitor: Visitor) -> None:
    """Not into the middle of the list that was searched."""
    asked = visitor.get("/topics?q=s", **{"HX-Request": "true"})
    assert (asked.status, asked.headers["HX-Refresh"]) == (401, "true")


def console_of(broker: int) -> int:
    (child,) = map(int, Path(f"/proc/{broker}/task/{broker}/children").read_text().split())
    return child


def wait_until_gone(pid: int) -> None:
    """However it ends."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([descriptor], [], [], 30)[0], "the console is still there"
    finally:
        os.close(descriptor)


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc who the child of the broker is")
def test_the_console_ends_with_its_broker_however_that_ends(secured: SecureBroker) -> None:
    process = secured.process
    address_in(process.folder / "ready.console")
    first = console_of(process.pid)
    process.kill()
    wait_until_gone(first)
    (process.folder / "ready.console").unlink()
    process.start()
    address_in(process.folder / "ready.console")
    second = console_of(process.pid)
    assert process.stop() == 0
    wait_until_gone(second)
    (process.folder / "ready.console").unlink()
    process.start()
    address_in(process.folder / "ready.console")
    os.kill(console_of(process.pid), signal.SIGKILL)
    make_topic(secured.open_bootstrap, "goes-on")


def serve(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tallystick", "serve", "--in-memory", "--port", "0", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_console_that_anybody_reaches_is_not_started_without_a_login() -> None:
    done = serve("--console", "0.0.0.0:0")
    assert done.returncode == 2 and "no listener asks who somebody is" in done.stderr
    assert "no address" in serve("--console", "here").stderr
