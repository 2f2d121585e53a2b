"""What a person on call does with a phone, with the keyboard, and after the session has ended.

The pages are served without an Airflow: `test_pages.py` and `test_sign_in.py` do the same in front of a real one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from support.airflow.browsing import DESK, PHONE, has_no_barriers
from support.pages.on_call import DEPARTURES, ROTATIONS, fill
from support.pages.served_pages import ServedPages, served_pages

SIZES = {"desk": (DESK, 800), "phone": (PHONE, 844)}
LISTS = ("/", "/incidents", "/drills")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedPages]:
    with served_pages(tmp_path_factory.mktemp("on-call"), fill) as pages:
        yield pages


@pytest.mark.parametrize("path", LISTS)
def test_the_keyboard_reaches_the_first_row_in_five_tabs(pages: ServedPages, browser: Browser, path: str) -> None:
    page = pages.open(browser, path, SIZES["desk"])
    for _ in range(2):
        page.keyboard.press("Tab")
    expect(page.locator("a.skip:focus")).to_have_text(re.compile("Skip to the first"))
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.locator("#first-row tr").first.locator("a:focus")).to_be_visible()


@pytest.mark.parametrize(("theme", "size"), [("light", SIZES["desk"]), ("dark", SIZES["phone"])], ids=SIZES)
@pytest.mark.parametrize("path", [*LISTS, "/drills/matrix", "/incidents/drill"])
def test_the_lists_fit_the_screen_and_have_no_barrier(
    pages: ServedPages, browser: Browser, path: str, theme: str, size: tuple[int, int]
) -> None:
    """With incidents, a failed drill and a stream that is down, which `test_pages.py` does not have."""
    page = pages.open(browser, path, size, theme)
    has_no_barriers(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    buttons = page.get_by_role("button", name="Acknowledge").all()
    assert bool(buttons) == path.startswith("/incidents")
    for each in buttons:
        box = each.bounding_box()
        assert box is not None
        assert 0 <= box["x"] <= box["x"] + box["width"] <= size[0]


def test_a_running_drill_does_not_hide_the_last_verdict(pages: ServedPages, browser: Browser) -> None:
    for path, row in (("/", f'[data-stream="{DEPARTURES}"]'), ("/drills", "#first-row tr:has(#of-kill_driver)")):
        shown = pages.open(browser, path, SIZES["desk"]).locator(row)
        expect(shown.get_by_role("link", name="PASSED")).to_be_visible()
        expect(shown.get_by_role("link", name="RUNNING")).to_be_visible()


def test_after_the_session_has_ended_a_link_leads_to_the_login_and_back(pages: ServedPages, browser: Browser) -> None:
    """From a page that refreshes itself, from a dialog, and from a page that was opened."""
    page = pages.open(browser, f"/incidents?stream={ROTATIONS}", SIZES["phone"])
    login = f"/api/v2/auth/login?next={quote(page.url, safe='')}"
    page.set_extra_http_headers({"Authorization": ""})
    page.context.set_extra_http_headers({})
    page.get_by_role("button", name="Acknowledge").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Acknowledge").click()
    expect(dialog.get_by_role("status").last).to_contain_text("you are no longer logged in.")
    _leads_to(dialog.page, "dialog >> text=Log in and come back", login)
    dialog.get_by_role("button", name="Cancel").click()
    expect(page.locator("#stale")).to_contain_text("you are no longer logged in.")
    _leads_to(page, "#login", login)
    page.reload()
    expect(page.get_by_role("heading", name="You are not logged in")).to_be_visible()
    _leads_to(page, "main >> text=Log in and come back", login)


def _leads_to(page: Page, link: str, address: str) -> None:
    expect(page.locator(link)).to_be_visible()
    expect(page.locator(link)).to_have_attribute("href", address)
