"""What comes from elsewhere, or is larger than anybody means: it is refused in words, and costs little."""

import http.client
from errno import ECONNREFUSED
from urllib.parse import quote, urlencode, urlsplit

import pytest

from tallystick.client.errors import ConnectionLost
from tallystick.console.visit import in_words
from tests.console.conftest import Shown
from tests.console.stage import GROUP_NAME, ODD_ID, TOPIC
from tests.console.visitor import Visitor

MESSAGES = f"/topics/{TOPIC}/partitions/0"
LINK = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


@pytest.fixture
def visitor(shown: Shown) -> Visitor:
    return shown.visitor()


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"/topics/{TOPIC}/partitions/{'9' * 5000}", 404),
        (f"/topics/{TOPIC}/partitions/{'9' * 19}", 404),
        (f"{MESSAGES}/records/{'9' * 5000}", 404),
        (f"{MESSAGES}/records/{'9' * 19}", 404),
        (f"{MESSAGES}?from={'9' * 29}", 200),
        (f"{MESSAGES}?time={'9' * 5000}", 200),
        (f"/topics/{'x' * 40_000}", 414),
        (f"/transaction?id={'x' * 40_000}", 414),
        ("/transaction?id=%ff", 404),
    ],
)
def test_numbers_and_names_that_nothing_has_are_answered_in_words(visitor: Visitor, path: str, status: int) -> None:
    found = visitor.get(path)
    assert found.status == status
    assert "digits)" not in found.text, "what Python says of a long number is no sentence for a reader"


@pytest.mark.parametrize(
    "fields",
    [{"partitions": "9" * 12}, {"partitions": "9" * 5000}, {"replication_factor": "99999"}],
)
def test_a_topic_of_more_partitions_than_can_be_said_is_refused(visitor: Visitor, fields: dict[str, str]) -> None:
    refused = visitor.submit("/new-topic", "/topics", name="too-much", **fields)
    assert refused.status == 400 and "is too many" in refused.text


def test_a_name_that_the_protocol_cannot_say_is_too_much(visitor: Visitor) -> None:
    assert visitor.submit("/new-topic", f"/topics/{TOPIC}/configs", config="x" * 40_000, how="set").status == 413


def test_somebody_else_s_page_leads_here_by_a_link_and_in_no_other_way(visitor: Visitor) -> None:
    for site in ("cross-site", "same-site"):
        picture = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
        assert visitor.get("/live/cluster", **picture).status == 403
        assert visitor.get("/topics", **{**LINK, "Sec-Fetch-Site": site, "Sec-Fetch-Dest": "iframe"}).status == 403
        assert visitor.get("/topics", **{**LINK, "Sec-Fetch-Site": site}).status == 200
        token = visitor.get("/new-topic").form_token
        posted = visitor.post("/topics", {"form_token": token, "name": "x"}, **{**LINK, "Sec-Fetch-Site": site})
        assert posted.status == 403
    for site in ("none", "same-origin"):
        assert visitor.get("/topics", **{"Sec-Fetch-Site": site}).status == 200


def test_a_link_cannot_make_the_console_say_something(visitor: Visitor) -> None:
    said = "Your password has expired."
    assert said not in visitor.get(f"/topics?said={quote(said)}").text
    done = visitor.submit("/new-topic", "/topics", name="said-by-itself", partitions="1", replication_factor="1")
    assert "Topic said-by-itself is there." in visitor.get(done.headers["Location"]).text
    query = urlsplit(done.headers["Location"]).query.partition("&")[2]
    assert said not in visitor.get(f"/topics?{urlencode({'said': said})}&{query}").text
    visitor.submit("/new-topic", "/topics/said-by-itself/delete", name="said-by-itself")


def test_a_name_that_ends_with_a_space_is_not_the_one_without(visitor: Visitor) -> None:
    """Nobody aborts a transaction in the place of another."""
    assert visitor.get(f"/transaction?id={quote(ODD_ID)}").status == 200
    for path in ("/transaction", "/transaction/abort"):
        assert visitor.get(f"{path}?id={quote(ODD_ID + ' ')}").status == 404
    assert visitor.get(f"/group?name={quote(' ' + GROUP_NAME)}").status == 404


def test_a_cluster_that_is_gone_is_told_of_in_words() -> None:
    assert (
        in_words(ConnectionRefusedError(ECONNREFUSED, "Connect call failed ('127.0.0.1', 9092)"))
        == "Connection refused."
    )
    assert in_words(ConnectionLost("no answer within 15 s")) == "no answer within 15 s"
    assert in_words(OSError("of no number")) == "of no number"


def test_bytes_that_are_no_text_are_no_form(shown: Shown, visitor: Visitor) -> None:
    token = visitor.get("/new-topic").form_token
    cookie = "; ".join(f"{name}={value}" for name, value in visitor.cookies.items())
    connection = http.client.HTTPConnection(urlsplit(shown.address).netloc, timeout=30)
    try:
        connection.request("POST", "/topics", f"form_token={token}&name=".encode() + b"\xff", {"Cookie": cookie})
        assert connection.getresponse().status == 413
    finally:
        connection.close()
