"""Pages of one browser beside each other, and with others than this console's."""

from typing import TYPE_CHECKING

from tests.console.browser.conftest import Opening
from tests.console.conftest import Shown

if TYPE_CHECKING:
    from playwright.sync_api import Browser

HIDE = """hidden => {
    Object.defineProperty(document, "hidden", {value: hidden, configurable: true});
    document.dispatchEvent(new Event("visibilitychange"));
}"""
"""As a browser does with a page in the background; one that is driven shows all."""


def test_a_page_that_nobody_sees_gives_back_its_connection(opened: Opening) -> None:
    """A browser has six to a console: the seventh page would wait for ever."""
    first = opened("/")
    first.locator(".beat.on").wait_for()
    pages = [first]
    for _ in range(6):
        pages[-1].evaluate(HIDE, True)
        pages.append(first.context.new_page())
        pages[-1].goto(first.url)
        pages[-1].locator(".beat.on").wait_for()
    for page in pages[1:]:
        page.close()
    points = "Number(document.querySelector('[data-chart]').dataset.points || 0)"
    before = first.evaluate(points)
    first.evaluate(HIDE, False)
    first.wait_for_function(f"before => {points} > before", arg=before)


def test_a_search_that_is_not_answered_says_so(browser: "Browser", shown: Shown) -> None:
    context = browser.new_context()
    try:
        page = context.new_page()
        page.goto(f"{shown.address}/topics")
        page.route("**/topics?*", lambda route: route.abort())
        page.locator("[data-search]").fill("orders")
        page.get_by_text("The console does not answer.").wait_for()
        page.unroute("**/topics?*")
        page.locator("[data-search]").fill("shipments")
        page.locator("#found tbody tr", has_text="shipments").wait_for()
    finally:
        context.close()


def test_behind_a_link_a_visitor_is_who_he_was(browser: "Browser", shown: Shown) -> None:
    """A cookie that did not come with it would be answered with another one, and that is a logout."""
    context = browser.new_context()
    try:
        page = context.new_page()
        page.goto(shown.address)
        (before,) = context.cookies()
        page.route(
            "http://elsewhere.example/", lambda route: route.fulfill(body=f"<a href='{shown.address}/topics'>a</a>")
        )
        page.goto("http://elsewhere.example/")
        page.locator("a").click()
        page.get_by_role("heading", name="Topics").wait_for()
        assert [one["value"] for one in context.cookies()] == [before["value"]]
    finally:
        context.close()
