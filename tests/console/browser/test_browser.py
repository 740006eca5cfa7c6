"""The console as people use it: with eyes, with keys alone, in the dark, while things move."""

import asyncio
import itertools
import math
import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from protocol.records.record import NewRecord, build_batch
from tallystick.client.background import background_loop
from tallystick.client.client import Client
from tests.console.browser.conftest import Opening
from tests.console.browser.looks import FAINT, PROBLEMS
from tests.console.conftest import Shown
from tests.console.stage import GROUP_NAME, HOSTILE, HOSTILE_TOPIC, ODD_ID, TOPIC

if TYPE_CHECKING:
    from playwright.sync_api import Page

MESSAGES = f"/topics/{TOPIC}/partitions/0"
PAGES = {
    "overview": "/",
    "topics": "/topics",
    "topic": f"/topics/{TOPIC}",
    "messages": MESSAGES,
    "message": f"{MESSAGES}/records/5",
    "producers": f"/topics/{TOPIC}/producers",
    "configs": f"/topics/{TOPIC}/configs",
    "new-topic": "/new-topic",
    "delete-topic": f"/topics/{TOPIC}/delete",
    "groups": "/groups",
    "group": f"/group?name={GROUP_NAME}",
    "transactions": "/transactions",
    "transaction": f"/transaction?id={quote(ODD_ID, safe='')}",
    "abort": f"/transaction/abort?id={quote(ODD_ID, safe='')}",
    "settings": "/settings?set=1",
    "nothing": "/nothing",
}
PICTURES = Path(__file__).resolve().parents[3] / "docs" / "images"
PICTURED = {"overview": 540, "messages": 1370, "topic": 800, "group": 560, "transactions": 420, "transaction": 700}
LIVE = {"overview": 20, "topic": 2, "group": 2}
"""How many points of a chart there are to be in its picture."""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_named_labelled_and_legible(opened: Opening, scheme: str) -> None:
    page = opened("/", scheme=scheme)
    for name, path in PAGES.items():
        if name == "nothing":
            continue
        page.goto(page.url.partition("/")[0] + "//" + page.url.split("/")[2] + path)
        assert page.evaluate(PROBLEMS) == [], name
        assert page.evaluate(FAINT) == [], name


def test_what_a_record_says_is_not_run(opened: Opening) -> None:
    page = opened(f"/topics/{HOSTILE_TOPIC}/partitions/0")
    assert page.get_by_text(HOSTILE).count() >= 2
    assert page.title() == f"Messages of {HOSTILE_TOPIC}-0 · Tallystick"
    assert page.evaluate("document.querySelectorAll('td script').length") == 0


def test_the_word_in_the_box_of_an_error_is_not_outlined_as_the_box_is(opened: Opening) -> None:
    page = opened("/")
    page.evaluate(
        """document.querySelector('main').insertAdjacentHTML('beforeend',
            '<svg class="timeline"><g class="error"><rect/><text class="on">EndTxn</text></g></svg>')"""
    )
    looks = page.eval_on_selector_all(
        ".timeline g.error > *", "all => all.map(one => [getComputedStyle(one).stroke, getComputedStyle(one).fill])"
    )
    (edge, within), (outline, letters) = looks
    assert outline == "none" != edge
    assert letters != within


def test_the_list_is_searched_while_somebody_types(opened: Opening) -> None:
    page = opened("/topics")
    page.keyboard.press("/")
    for part, so_far in (("s", "s"), ("hi", "shi"), ("p", "ship")):
        page.keyboard.type(part)
        page.wait_for_url(lambda url, so_far=so_far: url.endswith(f"/topics?q={so_far}"))
    page.get_by_text("1 of 4 topics").wait_for()
    assert page.locator("tbody tr").all_inner_texts()[0].startswith("shipments")
    assert page.evaluate("document.activeElement.name") == "q", "the search keeps the focus"
    page.go_back()  # One step, although it was searched three times.
    page.get_by_text("payments").wait_for()
    assert page.url.endswith("/topics")


def test_everything_is_done_with_keys(opened: Opening) -> None:
    page = opened("/topics")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "New topic", "behind what was skipped"
    page.keyboard.press("Enter")
    page.wait_for_url("**/new-topic")
    focused(page, "name")
    page.keyboard.type("by-keys")
    page.keyboard.press("Tab")
    page.keyboard.type("2")
    page.keyboard.press("Enter")
    page.wait_for_url("**/topics/by-keys?*")
    assert page.get_by_role("status").first.inner_text() == "Topic by-keys is there."


def focused(page: "Page", name: str) -> None:
    """Go on until this field has the focus."""
    for _ in range(40):
        if page.evaluate("document.activeElement.name") == name:
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"no way to {name} with the tab key")


def test_counters_move_while_somebody_looks(opened: Opening, shown: Shown) -> None:
    page = opened("/topics/payments")
    page.locator(".beat.on").wait_for()

    async def write() -> None:
        client = await Client.connect(shown.bootstrap)
        batch = build_batch([NewRecord(value=b"paid")] * 1000)
        assert not (await client.produce("payments", 0, batch)).error_code
        await client.close()

    rate = page.locator("[data-show=rate]")
    rate.filter(has_text=re.compile("^0$")).wait_for()
    background_loop().run(write())
    rate.filter(has_text=re.compile("[1-9]..")).wait_for()
    page.locator(".chart canvas").wait_for()


def test_the_theme_is_chosen_and_kept(opened: Opening) -> None:
    page = opened("/", scheme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    button = page.get_by_role("button", name=re.compile("Theme"))
    button.click()
    button.click()
    assert button.inner_text() == "Theme: dark" and page.evaluate(ground) != light
    page.goto(page.url + "topics")
    assert page.evaluate(ground) != light
    assert opened("/", scheme="dark").evaluate(ground) != light, "without a choice the system says"


def test_a_narrow_window_shows_everything(opened: Opening) -> None:
    page = opened(f"/topics/{TOPIC}", width=380, height=800)
    home = page.url.removesuffix(f"/topics/{TOPIC}")
    for name, path in PAGES.items():
        if name != "nothing":
            page.goto(home + path)
            assert page.evaluate("document.documentElement.scrollWidth") <= 380, name
    assert page.get_by_role("link", name="Groups").is_visible()


def busy(bootstrap: str, stop: threading.Event) -> None:
    """Waves of records, so that there is something to be seen."""

    async def write() -> None:
        client = await Client.connect(bootstrap)
        for number in itertools.count():
            if stop.is_set():
                break
            batch = build_batch([NewRecord(value=b"paid")] * round(300 + 200 * math.sin(number / 9)))
            assert not (await client.produce("payments", 0, batch)).error_code
            await asyncio.sleep(0.2)
        await client.close()

    asyncio.run(write())


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pictures_for_the_documentation(opened: Opening, shown: Shown, scheme: str) -> None:
    PICTURES.mkdir(exist_ok=True)
    stop = threading.Event()
    writing = threading.Thread(target=busy, args=(shown.bootstrap, stop))
    writing.start()
    try:
        page = opened("/", scheme=scheme)
        home = page.url.rstrip("/")
        for name, height in PICTURED.items():
            page.set_viewport_size({"width": 1280, "height": height})
            page.goto(home + PAGES[name])
            if name in LIVE:
                page.locator(f"[data-points='{LIVE[name]}']").wait_for(timeout=120_000)
            page.screenshot(path=PICTURES / f"console-{name}{'-dark' if scheme == 'dark' else ''}.png")
    finally:
        stop.set()
        writing.join()


def test_z_a_transaction_is_aborted_and_its_records_change_colour(opened: Opening, shown: Shown) -> None:
    """The last of all: it changes the stage."""
    page = opened(f"/topics/{TOPIC}")
    page.get_by_role("link", name="Abort…").click()
    page.get_by_role("button", name="Abort").click()
    assert "its producer is fenced" in page.get_by_role("status").first.inner_text()
    page.goto(shown.address + MESSAGES)
    row = page.locator("tbody tr").filter(has=page.get_by_role("link", name=str(shown.stage.open), exact=True))
    assert "aborted" in row.inner_text()
    assert page.locator(".stable").count() == 0
