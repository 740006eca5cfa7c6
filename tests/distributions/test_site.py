"""The site of docs/: each page is in it, no link of it leads nowhere, and nothing is loaded from elsewhere; it looks as
it should in a real Chromium, opened from a folder and from a server.
"""

import functools
import os
import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING
from urllib.parse import unquote, urljoin, urlsplit

import pytest

from distributions.site.markdown import converted, links
from distributions.site.pages import ROOT, PageNowhere, parts_of_readme, site

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

BUILT = os.environ.get("TALLYSTICK_SITE")
CHROMIUM = os.environ.get("TALLYSTICK_BROWSER", "")
built = pytest.mark.skipif(BUILT is None, reason="`make docs-site` asks for it")
LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "link": "href"}
NOT_LOADED = ("canonical", "next", "prev", "alternate")
LEFT_OVER = re.compile(r"\]\([\w./#-]+\)|^```|^\|? *:?---|\*\*\w", re.MULTILINE)
"""Markdown that became nothing else."""
WIDTHS = {"narrow": 400, "wide": 1440}


# -- what it is made of ------------------------------------------------------------------------------------------------


def test_each_page_of_docs_is_shown_and_leads_somewhere() -> None:
    made = site()
    assert len(made.pages) > 60
    for name, text in made.pages.items():
        for link in links(text):
            path = link.partition("#")[0]
            if path and not re.match(r"[a-z]+:", link):
                target = os.path.normpath(os.path.join(os.path.dirname(name), path))
                assert target in made.pages or target in made.copied, f"{name}: {link}"
    first = [page for tab in made.nav for pages in tab.values() for page in pages]
    assert first[0] == {"Tallystick": "index.md"}
    assert made.pages["index.md"].startswith("# Tallystick\n\nA standalone broker")
    assert "clients/confluent-kafka.md" in made.pages


def test_a_page_that_no_tab_names_is_among_the_reference(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    for name in ("README.md", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "docs" / "new.md").write_text("# Of another day\n")
    (reference,) = [tab["Reference"] for tab in site(tmp_path).nav if "Reference" in tab]
    assert reference[-1] == {"Of another day": "new.md"}


def test_a_page_that_is_not_there_is_missed(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    for name in ("README.md", "CHANGELOG.md", "docs/spark.md"):
        (tmp_path / name).write_text("# New\n")
    with pytest.raises(PageNowhere, match=r"README\.md"):
        site(tmp_path)
    (tmp_path / "README.md").write_text("# New\n\n## Clients\n\n### One\n\n## Status\n")
    with pytest.raises(PageNowhere, match=r"not there: .*architecture\.md"):
        site(tmp_path)


def test_what_stands_in_code_stays_and_what_is_a_link_leads_to_the_site() -> None:
    text = "[a.md](a.md) `[b](b.md)` [c](c/)\n```py one.py\n[d](d.md)\n```\n<!-- made -->\n| `x\\|y` | [e](e.md) |\n"
    shown = converted(text, lambda label, link: (label.upper(), None if link == "c/" else f"to/{link}"))
    assert shown == (
        '[A.MD](to/a.md) `[b](b.md)` C\n```py title="one.py"\n[d](d.md)\n```\n\n| `x|y` | [E](to/e.md) |\n'
    )


def test_the_readme_is_cut_up_at_its_clients() -> None:
    text = "# T\nlead\n\n## Clients\n\nAny.\n\n### One two\n\nthe one\n\n### Other\n\nthe other\n\n## Status\n\nfine\n"
    parts = parts_of_readme(text)
    assert sorted(parts) == ["clients/one-two.md", "clients/other.md", "index.md"]
    assert parts["clients/one-two.md"].startswith("# One two\n\nthe one\n")
    assert "the one" not in parts["index.md"]
    assert parts["index.md"].endswith("(clients/other.md)\n\n## Status\n\nfine\n")


# -- what was built ----------------------------------------------------------------------------------------------------


class Html(HTMLParser):
    """Where a page leads to, what can be reached in it, what it loads, and its text that is not code."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.loaded: list[str] = []
        self.text: list[str] = []
        self._within: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if LOADED.get(tag) in given and given.get("rel") not in NOT_LOADED:
            self.loaded.append(given[LOADED[tag]])
        if tag in ("code", "pre", "script", "style"):
            self._within.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._within and self._within[-1] == tag:
            self._within.pop()

    def handle_data(self, data: str) -> None:
        if not self._within:
            self.text.append(data)


@pytest.fixture(scope="module")
def pages() -> dict[Path, Html]:
    folder = Path(BUILT or "").resolve()
    # The page for what is not there is shown at any address: its links begin at the root.
    return {path: Html(path) for path in sorted(folder.rglob("*.html")) if path.name != "404.html"}


@built
def test_each_link_and_anchor_of_the_built_pages_leads_somewhere(pages: dict[Path, Html]) -> None:
    assert len(pages) > 60
    checked, lost = 0, []
    for path, page in pages.items():
        for link in page.links:
            if urlsplit(link).scheme or link in ("", "."):
                continue
            file, _, anchor = link.partition("#")
            target = (path.parent / unquote(file)).resolve() if file else path
            checked += 1
            if not target.is_file() or (anchor and target in pages and unquote(anchor) not in pages[target].ids):
                lost.append(f"{path.name}: {link}")
    assert lost == []
    assert checked > 5_000


@built
def test_nothing_is_loaded_from_elsewhere(pages: dict[Path, Html]) -> None:
    assert [one for page in pages.values() for one in page.loaded if urlsplit(one).netloc] == []
    styles = list(Path(BUILT or "").rglob("*.css"))
    assert styles
    assert [
        path.name for path in styles if re.search(r"(url\(['\"]?|@import\s+['\"]?)(https?:)?//", path.read_text())
    ] == []


@built
def test_no_markdown_is_left_over(pages: dict[Path, Html]) -> None:
    left = {path.name: found[0] for path, page in pages.items() if (found := LEFT_OVER.search("".join(page.text)))}
    assert left == {}


# -- in a browser ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    if not CHROMIUM:
        pytest.skip("there is no Chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="there is no Playwright")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    """The address of a server of it."""
    handler = functools.partial(Quiet, directory=BUILT)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


class Quiet(SimpleHTTPRequestHandler):
    """Says nothing of each request."""

    def log_message(self, *_: object) -> None:
        return


def opened(browser: "Browser", address: str, width: int = 1440) -> "tuple[Page, list[str]]":
    """A page, and what goes wrong in it: what it says, and what it asks of others."""
    page, wrong = browser.new_page(viewport={"width": width, "height": 900}), list[str]()
    base = urljoin(address, ".")
    page.on("console", lambda one: wrong.append(one.text) if one.type in ("error", "warning") else None)
    page.on("pageerror", lambda one: wrong.append(str(one)))
    page.on("request", lambda one: None if one.url.startswith((base, "data:", "about:")) else wrong.append(one.url))
    page.goto(address)
    return page, wrong


@built
@pytest.mark.parametrize("way", ["from a server", "from a folder"])
def test_the_search_finds_without_the_internet(browser: "Browser", served: str, way: str) -> None:
    address = served if way == "from a server" else Path(BUILT or "").resolve().as_uri() + "/"
    page, wrong = opened(browser, address + "index.html")
    page.fill("input[name=query]", "find-hanging")
    page.wait_for_selector(".md-search-result__link")
    found = page.eval_on_selector_all(".md-search-result__link", "all => all.map(one => one.href)")
    assert any("/operations.html" in one for one in found), found
    assert wrong == []
    page.close()


@built
@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
def test_no_page_is_wider_than_its_window(browser: "Browser", served: str, pages: dict[Path, Html], width: int) -> None:
    folder = Path(BUILT or "").resolve()
    first, _, wide = *opened(browser, served, width), []
    for path in pages:
        first.goto(served + path.relative_to(folder).as_posix())
        if first.evaluate("document.documentElement.scrollWidth > window.innerWidth"):
            wide.append(path.name)
        broken = first.eval_on_selector_all("img", "all => all.filter(one => !one.naturalWidth).map(one => one.src)")
        assert broken == [], path
    assert wide == []
    first.close()


@built
def test_the_word_that_a_row_is_about_is_not_torn_apart(browser: "Browser", served: str) -> None:
    page, _ = opened(browser, served + "pytest.html")
    torn = """all => all.filter(one => !/\\s/.test(one.textContent) && one.getClientRects().length > 1)
        .map(one => one.textContent)"""
    first = page.locator("td:first-child code")
    assert first.count() > 10
    assert first.evaluate_all(torn) == []
    page.close()
