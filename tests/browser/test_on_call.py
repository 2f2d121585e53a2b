"""What a person on call does with a phone, with the keyboard, and after the session has ended.

The pages are served without an Airflow: `test_pages.py` and `test_sign_in.py` do the same in front of a real one.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from streamwarden.health.signals.series import BACKLOG_SECONDS
from streamwarden.health.window import Measurement
from support.airflow.browsing import DESK, PHONE, SCREENS, THEMES, can_be_read, has_no_barriers
from support.airflow.harness import wait_for
from support.airflow.installation import LONG
from support.pages.on_call import DEPARTURES, PASSED, ROTATIONS, fill
from support.pages.served_pages import ServedPages, served_pages

SIZES = {"desk": (DESK, 800), "phone": (PHONE, 844)}
LISTS = ("/", "/incidents", "/drills")
REPORT = f"/drills/{PASSED}"


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
    """With incidents, a failed drill and a stream that is down, which `test_reading.py` does not have."""
    page = pages.open(browser, path, size, theme)
    has_no_barriers(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    buttons = page.get_by_role("button", name="Acknowledge").all()
    assert bool(buttons) == path.startswith("/incidents")
    for each in buttons:
        box = each.bounding_box()
        assert box is not None
        assert 0 <= box["x"] <= box["x"] + box["width"] <= size[0]


def test_on_a_phone_the_filter_is_folded_and_the_first_row_is_on_the_first_screen(
    pages: ServedPages, browser: Browser
) -> None:
    width, height = SIZES["phone"]
    page = pages.open(browser, "/", (width, height))
    first = page.locator("#first-row tr").first
    box = first.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] <= height
    search = page.get_by_role("searchbox", name="Search")
    expect(search).to_be_hidden()
    head = page.locator("#filters summary")
    expect(head).to_have_text("Filter ")
    head.focus()
    page.keyboard.press("Enter")
    search.fill("weather")
    expect(head).to_contain_text("(1 active)")
    expect(page.locator("#first-row tr")).to_have_count(1)
    page.set_viewport_size({"width": 1280, "height": 800})
    expect(search).to_be_visible()
    expect(head).to_be_hidden()


def test_an_address_with_a_filter_says_so_on_a_phone_and_shows_it_on_a_desk(
    pages: ServedPages, browser: Browser
) -> None:
    """Back undoes what was chosen, also in the head."""
    page = pages.open(browser, "/?q=weather&trouble=true", SIZES["phone"])
    head = page.locator("#filters summary")
    expect(head).to_contain_text("(2 active)")
    head.click()
    page.get_by_label("only in trouble").uncheck()
    expect(head).to_contain_text("(1 active)")
    page.wait_for_url("**/?q=weather")
    page.go_back()
    expect(head).to_contain_text("(2 active)")
    desk = pages.open(browser, "/?q=weather", SIZES["desk"])
    expect(desk.get_by_role("searchbox", name="Search")).to_have_value("weather")


def test_a_running_drill_does_not_hide_the_last_verdict(pages: ServedPages, browser: Browser) -> None:
    for path, row in (("/", f'[data-stream="{DEPARTURES}"]'), ("/drills", "#first-row tr:has(#of-kill_driver)")):
        shown = pages.open(browser, path, SIZES["desk"]).locator(row)
        expect(shown.get_by_role("link", name="PASSED")).to_be_visible()
        expect(shown.get_by_role("link", name="RUNNING")).to_be_visible()


@pytest.mark.parametrize("screen", SCREENS, ids=lambda screen: screen[0])
def test_the_report_of_a_drill_says_what_was_expected_and_can_be_read_by_everybody(
    pages: ServedPages, browser: Browser, screen: tuple[str, int]
) -> None:
    theme, width = screen
    page = pages.open(browser, REPORT, SIZES["desk"], theme)
    expect(page.locator(".hero").get_by_text("PASSED", exact=True)).to_be_visible()
    for heading in ("Course", "Recovery: predicted and measured", "What the judge expected"):
        expect(page.get_by_role("heading", name=heading)).to_be_visible()
    can_be_read(page, width)


def test_a_report_prints_its_verdict(pages: ServedPages, browser: Browser) -> None:
    """On paper: the verdict, in dark ink on white; no buttons, and only what the person unfolded of the journal.

    The text of a PDF is glyphs of an embedded font. Its title is the page's own, which has the verdict.
    """
    page, verdict = pages.open(browser, REPORT, SIZES["desk"], "dark"), "PASSED"
    journal = page.locator("details").filter(has_text="Every line of the journal")
    page.emulate_media(media="print")
    expect(page.locator(".hero").get_by_text(verdict, exact=True)).to_be_visible()
    expect(page.locator("body")).to_have_css("background-color", THEMES["light"])
    for hidden in (page.locator(".top"), page.get_by_role("button", name="Print"), journal):
        expect(hidden).to_be_hidden()
    journal.evaluate("each => { each.open = true; }")
    expect(journal.get_by_role("table")).to_be_visible()
    printed = page.pdf()
    assert printed.startswith(b"%PDF")
    assert verdict.encode() in printed


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


BANDS = """Bokeh.documents.flatMap((sheet) => sheet.roots()).flatMap((plot) => plot.center
    .filter((each) => each.type === "BoxAnnotation" && each.visible)
    .map((band) => [band.bottom, plot.y_range.end]))"""
"""Where each band of a limit begins that is shown, and how far its chart reaches."""
MINUTES = 60.0
NEAR = f"({BANDS}).some(([bottom, reach]) => bottom === {10 * MINUTES} && bottom < reach)"
"""Whether the limit of the backlog has a band."""


def _backlog(seconds: float, ago: float) -> Measurement:
    at = time.time() - ago
    return Measurement(stream=DEPARTURES, name=BACKLOG_SECONDS, at=at, value=seconds, unit="seconds", source="backlog")


def test_a_limit_has_a_band_while_it_is_in_sight(pages: ServedPages, browser: Browser) -> None:
    """The backlog comes near its limit while the page is open."""
    measurements = pages.space.store.measurements
    measurements.add([_backlog(2.0, 120.0), _backlog(3.0, 60.0)])
    page = pages.open(browser, f"/streams/{DEPARTURES}/charts", SIZES["desk"])
    page.wait_for_selector("#charts[data-drawn] #chart-backlog")
    bands = page.evaluate(BANDS)
    assert bands
    assert all(bottom < reach for bottom, reach in bands), bands
    assert not page.evaluate(NEAR)
    measurements.add([_backlog(9 * MINUTES, 0.0)])
    wait_for("the band of the limit", lambda: page.evaluate(NEAR), timeout=LONG)
