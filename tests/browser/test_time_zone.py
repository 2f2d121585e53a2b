"""Times of the pages are in the zone of Airflow's clock menu, which Airflow keeps in the browser's storage."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Browser, Page, expect

from support.airflow.browsing import DESK, PHONE
from support.pages import on_call
from support.pages.served_pages import ServedPages, served_pages

KOLKATA = "Asia/Kolkata"
ZONES = {"chosen": (KOLKATA, KOLKATA), "not chosen": (None, "UTC"), "no zone": ("Nowhere/Else", "UTC")}
"""What Airflow keeps, and which zone a page shows."""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedPages]:
    with served_pages(tmp_path_factory.mktemp("zone"), on_call.fill) as pages:
        yield pages


def _opened(pages: ServedPages, browser: Browser, path: str, kept: str | None, width: int = DESK) -> Page:
    page = pages.open(browser, path, (width, 900))
    if kept is not None:
        page.evaluate("zone => localStorage.setItem('timezone', zone)", json.dumps(kept))
        page.reload()
    return page


def _at(page: Page, place: str) -> tuple[str, float]:
    """The text of a time, and the Unix seconds that it stands for."""
    found = page.locator(place).first
    expect(found).to_be_visible()
    return found.inner_text().replace("\u00a0", " "), float(found.get_attribute("data-moment") or "nan")


@pytest.mark.parametrize(("kept", "zone"), ZONES.values(), ids=ZONES)
def test_tables_name_the_zone_and_have_its_times(
    pages: ServedPages, browser: Browser, kept: str | None, zone: str
) -> None:
    page = _opened(pages, browser, f"/streams/{on_call.ROTATIONS}/history", kept)
    expect(page.get_by_role("columnheader", name=f"when ({zone})")).to_be_visible()
    text, at = _at(page, "time[data-shape=full]")
    assert text == datetime.fromtimestamp(at, ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M:%S")


@pytest.mark.parametrize("path", ["/streams/{}/history", "/streams/{}/batches", "/incidents", "/drills"])
def test_on_a_phone_the_zone_is_named_once_above_the_cards(pages: ServedPages, browser: Browser, path: str) -> None:
    """The header of the table is not there; what it says of the zone is."""
    page = _opened(pages, browser, path.format(on_call.DEPARTURES), KOLKATA, PHONE)
    tables = page.locator("table:has(thead [data-zone])").all()
    assert tables
    for table in tables:
        (shown,) = [zone for zone in table.locator("thead [data-zone]").all() if zone.is_visible()]
        assert shown.inner_text() == KOLKATA
        assert shown.evaluate("zone => getComputedStyle(zone, '::before').content") == '"Times in "'


@pytest.mark.parametrize(("kept", "zone"), ZONES.values(), ids=ZONES)
def test_short_times_are_of_the_day_of_the_zone(
    pages: ServedPages, browser: Browser, kept: str | None, zone: str
) -> None:
    """Of an incident of five minutes ago, and of one of yesterday."""
    page = _opened(pages, browser, "/incidents", kept)
    shown = {
        float(each.get_attribute("data-moment") or "nan"): each.inner_text()
        for each in page.locator("time[data-shape=since]").all()
    }
    assert len(shown) >= 3
    today = datetime.now(ZoneInfo(zone)).date()
    for at, text in shown.items():
        then = datetime.fromtimestamp(at, ZoneInfo(zone))
        assert text == then.strftime("%H:%M" if then.date() == today else "%-d %b %H:%M")


@pytest.mark.parametrize(("kept", "zone"), ZONES.values(), ids=ZONES)
def test_charts_have_the_zone_on_their_axes(pages: ServedPages, browser: Browser, kept: str | None, zone: str) -> None:
    """The times of a range of the charts are those on the wall."""
    page = _opened(pages, browser, f"/streams/{on_call.DEPARTURES}/charts", kept)
    page.wait_for_selector("#charts[data-drawn]")
    start = page.evaluate("Bokeh.documents.at(-1).roots()[0].x_range.start")
    until = page.evaluate("Bokeh.documents.at(-1).roots()[0].x_range.end")
    apart = datetime.now(ZoneInfo(zone)).utcoffset() or timedelta()
    now = datetime.now(UTC).timestamp() + apart.total_seconds()
    assert start < until
    assert abs(until / 1000 - now) < 60
    expect(page.get_by_text(f"The times are those of {zone}.")).to_be_visible()


def test_a_sentence_has_the_time_and_the_name_of_the_zone(pages: ServedPages, browser: Browser) -> None:
    """Whatever the server wrote in a sentence; a log keeps its own times, which is the control."""
    page = _opened(pages, browser, "/", KOLKATA)
    said = page.evaluate(
        """() => {
          const place = document.createElement("div");
          place.innerHTML = "<p>expires 2026-01-31 20:00:00 UTC</p><pre>at 2026-01-31 20:00:00 UTC</pre>";
          times(place);
          return [...place.children].map((each) => each.textContent);
        }"""
    )
    assert [text.replace("\u00a0", " ") for text in said] == [
        f"expires 2026-02-01 01:30:00 {KOLKATA}",
        "at 2026-01-31 20:00:00 UTC",
    ]


@pytest.mark.parametrize(
    ("zone", "typed", "meant"),
    [
        (KOLKATA, "2026-01-31T12:00", "2026-01-31T06:30:00.000Z"),
        ("Europe/Berlin", "2026-03-29T04:00", "2026-03-29T02:00:00.000Z"),  # two hours after the clock was set forward
        ("America/New_York", "2026-10-31T23:30", "2026-11-01T03:30:00.000Z"),
    ],
)
def test_a_time_that_a_person_types_is_on_the_clock_of_the_zone(
    pages: ServedPages, browser: Browser, zone: str, typed: str, meant: str
) -> None:
    page = _opened(pages, browser, "/", zone)
    assert page.evaluate("typed => instantOf(typed)", typed) == meant


def test_a_mute_ends_when_the_person_said(pages: ServedPages, browser: Browser) -> None:
    """The request has the instant, whatever the zone."""
    page = _opened(pages, browser, f"/streams/{on_call.WEATHER}", KOLKATA)
    until = datetime.now(ZoneInfo(KOLKATA)).replace(second=0, microsecond=0) + timedelta(hours=3)
    form = page.locator("form[data-post$='/mute']")
    form.evaluate("form => form.closest('details') && (form.closest('details').open = true)")
    form.get_by_label(f"Mute until ({KOLKATA})").fill(until.strftime("%Y-%m-%dT%H:%M"))
    form.get_by_label("Reason").fill("the broker moves")
    with page.expect_request(lambda request: request.url.endswith("/mute") and request.method == "POST") as sent:
        form.get_by_role("button", name="Mute until then").click()
    told = datetime.fromisoformat(json.loads(sent.value.post_data or "")["until"])
    assert told == until


def test_a_zone_that_is_chosen_while_a_page_is_open_is_taken(pages: ServedPages, browser: Browser) -> None:
    """Another tab, or Airflow around the page, writes into the storage."""
    page = _opened(pages, browser, f"/streams/{on_call.ROTATIONS}/history", None)
    other = page.context.new_page()
    other.goto(page.url)
    other.evaluate("localStorage.setItem('timezone', '\"Asia/Kolkata\"')")
    expect(page.get_by_role("columnheader", name=f"when ({KOLKATA})")).to_be_visible()
