"""The walk of `docs/tutorial.md` by somebody who looks at the console in a browser: it says what the command says."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.console.browser.conftest import watched
from tests.harness.broker import KAFKA
from tests.harness.tutorial import BLOCKS, Walk

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.skipif(KAFKA, reason="it is our broker's")

PICTURES = Path(__file__).resolve().parents[3] / "docs" / "images"
LOOK = next(number for number, (kind, _, _) in enumerate(BLOCKS) if kind == "text")
"""Which block is what the console shows."""
HEIGHTS = {"topic": 385, "transaction": 650}
RENAMED = """([ours, theirs]) => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) walker.currentNode.data = walker.currentNode.data.replace(ours, theirs);
}"""
"""The address of the broker, as it stands in the tutorial."""


class InBrowser(Walk):
    """Whoever walks with a browser."""

    open_page: Callable[..., "Page"]
    page: "Page"

    def seen(self, url: str) -> str:
        self.page = self.open_page(url)
        return self.page.locator("main").inner_text()

    def picture(self, name: str) -> None:
        self.page.set_viewport_size({"width": 1280, "height": HEIGHTS[name]})
        self.page.evaluate(RENAMED, [f"127.0.0.1:{self.ports['9092']}", "127.0.0.1:9092"])
        self.page.screenshot(path=PICTURES / f"tutorial-{name}.png")


@pytest.fixture
def walk(browser: "Browser", tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InBrowser]:
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    with closing(InBrowser(tmp_path)) as made, watched(browser) as made.open_page:
        yield made


def test_the_page_names_who_holds_it_as_the_command_does(walk: InBrowser) -> None:
    for kind, place, text in BLOCKS[: LOOK + 1]:
        walk.step(kind, place, text)
    same_answer(walk)


def test_pictures_of_the_walk_to_its_end(walk: InBrowser) -> None:
    for number, (kind, place, text) in enumerate(BLOCKS):
        walk.step(kind, place, text)
        if number == LOOK:
            same_answer(walk)
            walk.picture("transaction")
            walk.page.go_back()
            walk.picture("topic")
        elif "Nothing is held" in text:
            walk.page.reload()
            assert walk.page.get_by_text("stand still").count() == 0
    assert walk.terminals["reader"].process.wait(30) == 0


def same_answer(walk: InBrowser) -> None:
    """Of the topic's page, of the page of the transaction that it leads to, and of `explain stuck`."""
    page = walk.page
    words = "tallystick explain stuck orders --bootstrap-server 127.0.0.1:9092 --http http://127.0.0.1:9644 --json"
    (held,) = json.loads(walk.run(words).stdout)
    holder = held["heldBy"][0]
    note = page.get_by_label("Readers stand still")
    found = re.search(
        r"They wait for (\S+) \(\w+, producer id (\d+), epoch (\d+)\), with its first record here at offset (\d+),",
        note.inner_text(),
    )
    assert found, note.inner_text()
    answer = (holder["transactionalId"], holder["producerId"], holder["producerEpoch"], holder["firstOffset"])
    assert (found[1], *map(int, found.groups()[1:])) == answer == ("copier", 0, 0, 0)
    assert holder["command"] in " ".join(note.locator("code").inner_text().split())
    note.get_by_role("link", name="copier").click()
    page.get_by_role("heading", name="copier").wait_for()
    facts = dict(
        zip(page.locator(".facts dt").all_inner_texts(), page.locator(".facts dd").all_inner_texts(), strict=True)
    )
    assert (facts["Producer id"], facts["Epoch"]) == (str(answer[1]), str(answer[2]))
