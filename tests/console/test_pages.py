"""Pages of the console over a real socket, about a real broker: what they say, and that nothing in them is run."""

import asyncio
import html
import re

import pytest

from tallystick.client.client import Client
from tallystick.inspection.lag import lags
from tests.console.conftest import Shown
from tests.console.stage import GROUP_NAME, HOSTILE, HOSTILE_TOPIC, ODD_ID, TOPIC
from tests.console.visitor import Visitor

MESSAGES = f"/topics/{TOPIC}/partitions/0"
HOSTILE_MESSAGES = f"/topics/{HOSTILE_TOPIC}/partitions/0"


@pytest.fixture
def visitor(shown: Shown) -> Visitor:
    return shown.visitor()


def row_at(visitor: Visitor, offset: int, path: str = MESSAGES) -> str:
    page = visitor.get(path)
    (row,) = (row for row in page.rows if row.startswith(f"{offset} "))
    return row


def test_each_record_says_what_became_of_its_transaction(shown: Shown, visitor: Visitor) -> None:
    stage = shown.stage
    assert " no transaction " in row_at(visitor, 0)
    assert " committed " in row_at(visitor, stage.committed)
    assert " aborted " in row_at(visitor, stage.aborted)
    # Markers are written when the producer has its answer: others may have written before them.
    rows = visitor.get(MESSAGES).rows
    assert any(" commit id " in row for row in rows) and any(" abort id " in row for row in rows)
    assert " open " in row_at(visitor, stage.open)
    # Behind the open one: no reader of committed records is shown it yet, and its end is known all the same.
    assert " committed " in row_at(visitor, stage.behind_open)


def test_the_last_stable_offset_is_drawn_before_what_is_not_decided(shown: Shown, visitor: Visitor) -> None:
    rows = visitor.get(MESSAGES).rows
    line = next(number for number, row in enumerate(rows) if row.startswith("last stable offset"))
    assert rows[line + 1].startswith(f"{shown.stage.open} ")
    assert "last stable offset" not in visitor.get(f"/topics/{TOPIC}/partitions/2").text


def test_what_records_say_is_text(visitor: Visitor) -> None:
    for path in (HOSTILE_MESSAGES, f"{HOSTILE_MESSAGES}/records/0"):
        page = visitor.get(path)
        assert HOSTILE in html.unescape(page.body)
        assert "<script>" not in page.body
        assert re.findall(r"<script src=\"(/static/[a-z.]+)\"", page.body) == [
            "/static/theme.js",
            "/static/htmx.min.js",
            "/static/uplot.min.js",
            "/static/console.js",
        ]
    # A text that would turn the direction of what is behind it is written with an escape.
    assert "abc\\u202etxt.exe" in row_at(visitor, 1, HOSTILE_MESSAGES)


def test_bytes_are_shown_as_what_they_seem_to_be(shown: Shown, visitor: Visitor) -> None:
    assert "c8 c9 ca cb" in row_at(visitor, 2, HOSTILE_MESSAGES)
    assert " null" in row_at(visitor, 3, HOSTILE_MESSAGES)
    record = visitor.get(f"{MESSAGES}/records/{shown.stage.committed}")
    assert '"order": 4000,\n' in record.body.replace("&#34;", '"')
    assert "trace 4bf92f350000" in record.text


def test_pages_of_messages_follow_each_other(shown: Shown, visitor: Visitor) -> None:
    first = visitor.get(f"{MESSAGES}?from=0&rows=25")
    again = visitor.get(f"{MESSAGES}?from=3")
    assert first.rows[1].startswith("0 ") and again.rows[1].startswith("3 ")
    assert f'href="{MESSAGES}?from=0&amp;rows=100">← Older' in again.body
    assert 'class="empty"' in visitor.get(f"{MESSAGES}?from=99999999999999999999").body
    newest = visitor.get(f"{MESSAGES}?time=2100-01-01T00:00&rows=25").rows[-1]
    assert newest == visitor.get(f"{MESSAGES}?rows=25").rows[-1] and newest == first.rows[-1]
    assert "is no time" in visitor.get(f"{MESSAGES}?time=soon").text


def test_a_topic_says_why_its_readers_stand_still_and_how_that_ends(visitor: Visitor) -> None:
    page = visitor.get(f"/topics/{TOPIC}")
    assert "Readers of committed records stand still in partition 0" in page.text
    assert f"force-terminate --transactional-id '{ODD_ID}' --bootstrap-server" in page.text
    assert re.search(r"Topic id [\w-]{22}\b", page.text), "as Kafka's tools write it"
    assert "1 open from" not in page.text
    assert "open from" in visitor.get(f"/topics/{TOPIC}/producers").text


def test_lists_are_searched_and_name_what_was_found(visitor: Visitor) -> None:
    page = visitor.get("/topics?q=PAY")
    assert "1 of 4 topics" in page.text and "payments" in page.text and "shipments" not in page.text
    assert "__transaction_state" in visitor.get("/topics?internal=1").text
    assert "checkout-2" not in visitor.get("/transactions?open=1").text
    assert ODD_ID in visitor.get("/transactions?q=eu+west").text
    assert "retention.ms 86400000" in visitor.get(f"/topics/{TOPIC}/configs").text
    assert "num.partitions 4" in visitor.get("/settings?q=num.partitions").text


def test_a_search_that_goes_on_is_one_step_of_the_browsers_history(visitor: Visitor) -> None:
    asked = {"HX-Request": "true"}
    first = visitor.get("/topics?q=s", **asked, **{"HX-Current-URL": f"{visitor.address}/topics"})
    assert "HX-Replace-Url" not in first.headers
    second = visitor.get("/topics?q=sh%20%C3%A9", **asked, **{"HX-Current-URL": f"{visitor.address}/topics?q=s"})
    assert second.headers["HX-Replace-Url"] == "/topics?q=sh%20%C3%A9"
    elsewhere = visitor.get("/groups?q=s", **asked, **{"HX-Current-URL": f"{visitor.address}/topics?q=s"})
    assert "HX-Replace-Url" not in elsewhere.headers


def test_a_group_s_lag_does_not_count_markers_and_aborted_records(shown: Shown, visitor: Visitor) -> None:
    page = visitor.get(f"/group?name={GROUP_NAME}")
    (row,) = (row for row in page.rows if row.startswith(f"{TOPIC} 0 "))
    committed, end, records, offsets = map(int, row.split()[2:6])
    assert committed == shown.stage.committed + 2
    assert offsets == end - committed
    assert records == 4 + 3  # four of the first transaction, three of the next: not two markers, not the aborted ones
    assert "waits for a transaction" in row


def test_the_lag_of_a_group_is_counted_in_so_many_bytes(shown: Shown) -> None:
    """Whoever has fallen far behind in many partitions is told so within the time of a page."""

    async def count(most_bytes: int | None) -> list[int | None]:
        client = await Client.connect(shown.bootstrap)
        try:
            return [one.records for one in await lags(client, GROUP_NAME, most_bytes=most_bytes)]
        finally:
            await client.close()

    whole = asyncio.run(count(None))
    assert len(whole) == 2 and None not in whole
    assert asyncio.run(count(1)) == [None, None]
    assert asyncio.run(count(1 << 20)) == whole


def test_a_group_that_waits_leads_to_what_it_waits_for(visitor: Visitor) -> None:
    page = visitor.get(f"/group?name={GROUP_NAME}")
    (link, *_) = re.findall(r'<a class="badge open" href="([^"]*)"', page.body)
    assert f"They wait for {ODD_ID}" in visitor.get(link).text


def test_a_page_that_failed_is_tried_again_with_what_was_asked(visitor: Visitor) -> None:
    page = visitor.get("/group?name=no+such&more=1")
    assert page.status == 404 and '<a href="/group?name=no+such&amp;more=1">Try again</a>' in page.body
    assert "There is no such thing." in visitor.get("/topics/no-such").text


def test_every_answer_carries_what_keeps_others_out(visitor: Visitor) -> None:
    for path in ("/", "/nothing", "/static/console.css", MESSAGES):
        headers = visitor.get(path).headers
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert "server" not in headers
    assert visitor.get("/").headers["Cache-Control"] == "no-store"
    body = visitor.get(f"/topics/{TOPIC}").body
    assert " style=" not in body and not re.search(r"\son[a-z]+=", body) and "http://" not in body


def test_a_name_that_is_not_this_console_s_is_refused(visitor: Visitor) -> None:
    assert visitor.get("/", Host="evil.example:8080").status == 421
    assert visitor.get("/", Host="localhost:8080").status == 200
    assert visitor.get("/", Host="[::1]:8080").status == 200
    assert visitor.get("/", Host="127.0.0.1.evil.example").status == 421


def test_a_form_of_somebody_else_changes_nothing(shown: Shown, visitor: Visitor) -> None:
    fields = {"name": "made-by-others", "partitions": "1", "replication_factor": "1"}
    visitor.get("/")
    assert visitor.post("/topics", fields).status == 403
    token = Visitor(visitor.address).get("/new-topic").form_token
    assert visitor.post("/topics", {**fields, "form_token": token}).status == 403
    assert "made-by-others" not in visitor.get("/topics").text
    assert visitor.post("/topics", {"form_token": "x" * 70_000}).status == 413
    assert visitor.post("/topics", {str(number): "" for number in range(200)}).status == 413


def test_a_topic_is_made_configured_and_deleted(visitor: Visitor) -> None:
    refused = visitor.submit("/new-topic", "/topics", name="made here", partitions="2")
    assert refused.status == 400 and 'value="made here"' in refused.body
    made = visitor.submit("/new-topic", "/topics", name="made-here", partitions="2", configs="cleanup.policy=compact\n")
    assert (made.status, made.headers["Location"].partition("?")[0]) == (303, "/topics/made-here")
    configs = "/topics/made-here/configs"
    assert visitor.submit(configs, configs, config="retention.ms", value="1000", how="set").status == 303
    page = visitor.get(configs).text
    assert "retention.ms 1000 dynamic topic config" in page and "cleanup.policy compact" in page
    assert visitor.submit(configs, configs, config="retention.ms", value="", how="take-back").status == 303
    assert "retention.ms 1000" not in visitor.get(configs).text
    assert visitor.submit(configs, configs, config="no.such", value="1", how="set").status == 400
    assert visitor.submit("/topics/made-here/delete", "/topics/made-here/delete", name="made").status == 400
    assert visitor.submit("/topics/made-here/delete", "/topics/made-here/delete", name="made-here").status == 303
    assert visitor.get("/topics/made-here").status == 404


def test_what_is_not_there_is_said(visitor: Visitor) -> None:
    for path in ("/topics/none", "/topics/none/partitions/0", f"/topics/{TOPIC}/partitions/77", "/group?name=none"):
        assert visitor.get(path).status == 404, path
    assert visitor.get(f"{MESSAGES}/records/999999").status == 404
    assert visitor.get("/transaction?id=none").status == 404
    assert "There is no such page." in visitor.get("/nowhere").text
    assert visitor.get("/static/../console.py").status == 404
