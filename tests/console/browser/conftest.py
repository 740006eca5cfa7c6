"""A Chromium of this machine, driven by Playwright; what goes wrong inside a page fails the test that opened it."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.console.conftest import Shown, showing

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = os.environ.get("TALLYSTICK_BROWSER", "")
OPTIONS = ["--no-sandbox", "--disable-gpu", "--force-device-scale-factor=1"]
"""In a container, as root, there is no sandbox; the pages are ours."""
Opening = Callable[..., "Page"]


# Of this package alone: as long as a browser is driven, this thread has a running loop, and no other can run in it.
@pytest.fixture(scope="package")
def browser() -> Iterator["Browser"]:
    if not CHROMIUM:
        pytest.skip("a browser: `make test-console` runs it, where Chromium is")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def shown(browser: "Browser", tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """One of its own: these tests change what there is to see."""
    with showing(tmp_path_factory.mktemp("browser"), over_http=True) as made:
        yield made


@contextmanager
def watched(browser: "Browser") -> Iterator[Callable[..., "Page"]]:
    """Opens pages by their addresses. Afterwards: no error was said in one, and nothing asked for from elsewhere."""
    said: list[str] = []
    asked: list[str] = []
    homes: list[str] = []
    contexts = []

    def open_page(url: str, *, scheme: str = "light", width: int = 1280, height: int = 800) -> "Page":
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if scheme == "dark" else "light",
            reduced_motion="reduce",
        )
        contexts.append(context)
        homes.append("/".join(url.split("/")[:3]))
        page = context.new_page()
        page.on("console", lambda one: said.append(one.text) if one.type in ("error", "warning") else None)
        page.on("pageerror", lambda one: said.append(str(one)))
        page.on("request", lambda one: asked.append(one.url))
        page.goto(url)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert said == []
    assert [url for url in asked if not url.startswith((*homes, "data:", "blob:"))] == []


@pytest.fixture
def opened(browser: "Browser", shown: Shown) -> Iterator[Opening]:
    """Opens a page of the console, by its path."""
    with watched(browser) as open_page:
        yield lambda path, **window: open_page(shown.address + path, **window)
