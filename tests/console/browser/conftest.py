"""A Chromium of this machine, driven by Playwright; what goes wrong inside a page fails the test that opened it."""

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from tests.console.conftest import Shown, showing

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = os.environ.get("TALLYSTICK_BROWSER", "")
OPTIONS = ["--no-sandbox", "--disable-gpu", "--force-device-scale-factor=1"]
"""In a container, as root, there is no sandbox; the pages are ours."""
Opening = Callable[..., "Page"]


@pytest.fixture(scope="session")
def browser() -> Iterator["Browser"]:
    if not CHROMIUM:
        pytest.skip("a browser: `make test-console` runs it, where Chromium is")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def shown(browser: "Browser", tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """One of its own: these tests change what there is to see."""
    with showing(tmp_path_factory.mktemp("browser")) as made:
        yield made


@pytest.fixture
def opened(browser: "Browser", shown: Shown) -> Iterator[Opening]:
    """Opens a page of the console. Afterwards: no error was said in it, and nothing asked for from elsewhere."""
    said: list[str] = []
    asked: list[str] = []
    contexts = []

    def open_page(path: str, *, scheme: str = "light", width: int = 1280, height: int = 800) -> "Page":
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if scheme == "dark" else "light",
            reduced_motion="reduce",
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda one: said.append(one.text) if one.type in ("error", "warning") else None)
        page.on("pageerror", lambda one: said.append(str(one)))
        page.on("request", lambda one: asked.append(one.url))
        page.goto(shown.address + path)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert said == []
    assert [url for url in asked if not url.startswith((shown.address, "data:", "blob:"))] == []
