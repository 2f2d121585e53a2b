"""How a person reads, searches and waits: in front of each page, in a real browser.

1. The fleet is searched and sorted; a page refreshes itself and takes neither the focus nor what a person opened.
2. The store is away, or one part of a page cannot be read: the page says what is old, and why.
3. Everything can be read in dark and in light, at a desk and on a phone, with the keyboard, and by a screen reader.

The pages are served without an Airflow: `test_pages.py` shows them in front of a real one. `test_on_call.py` holds for
the lists what this file holds for the other pages.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from streamwarden.health.incidents.incident import Incident
from streamwarden.health.incidents.stream_incidents import resolve
from streamwarden.health.verdict import Status
from support.airflow.browsing import (
    DESK,
    PATIENCE,
    PHONE,
    SCREENS,
    THEMES,
    Heard,
    Open,
    can_be_read,
    has_no_barriers,
)
from support.airflow.harness import wait_for
from support.airflow.installation import LONG
from support.pages.reading import COUNTED, STREAMS, fill
from support.pages.served_pages import ServedPages, served_pages
from support.streams.stored_journals import stored

pytestmark = pytest.mark.timeout(600)

FLEET, STREAM = "/", f"/streams/{COUNTED}"
STATE, CHARTS, BATCHES, HISTORY = (f"{STREAM}/{tab}" for tab in ("state", "charts", "batches", "history"))
TABS = [f"{STREAM}/{tab}" for tab in ("exceptions", "incidents", "drills", "checkpoint", "advice", "file")]
DRILLS, INCIDENTS = "/drills", "/incidents"
MATRIX, COMPARE = f"{DRILLS}/matrix", f"{DRILLS}/compare"
NOWHERE = "/streams/nothing"
OTHERS = (("light", PHONE), ("dark", DESK))
"""In the second tier: `SCREENS` hold that each page can be read in each theme, and on each screen."""
SIGNS = """Bokeh.documents.flatMap((sheet) => sheet.roots()).flatMap((plot) => plot.renderers)
    .flatMap((drawn) => [...(drawn.data_source.data.sign ?? [])])"""
"""The letters of the events in the charts."""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedPages]:
    with served_pages(tmp_path_factory.mktemp("reading"), fill) as pages:
        yield pages


@pytest.fixture
def visit(browser: Browser, pages: ServedPages, heard: Heard) -> Open:
    """Opens a page in a theme."""
    return lambda path, theme="light": pages.open(browser, path, (DESK, 900), theme, heard)


def _row(page: Page, stream: str = COUNTED) -> Locator:
    return page.locator(f'tr[data-stream="{stream}"]')


def _streams(page: Page) -> Locator:
    return page.locator("tr[data-stream] th")


def test_the_fleet_is_searched_by_keyboard_and_sorted_by_a_click(visit: Open) -> None:
    page = visit(FLEET)
    expect(_streams(page)).to_have_text(list(STREAMS))  # trouble first
    _tab_to(page, page.get_by_label("Search"))
    page.keyboard.type("idle")
    expect(_streams(page)).to_have_text(["idle"])
    assert page.url.endswith("?q=idle")
    for _ in "idle":
        page.keyboard.press("Backspace")
    expect(_streams(page)).to_have_count(4)
    page.locator("#sort-stream").click()
    expect(_streams(page)).to_have_text(["counted", "idle", "published", "torn"])
    page.locator("#sort-stream").click()
    expect(_streams(page)).to_have_text(["torn", "published", "idle", "counted"])
    expect(page.locator("th:has(#sort-stream)")).to_have_attribute("aria-sort", "descending")
    page.get_by_label("only in trouble").check()
    expect(_streams(page)).to_have_text(["torn"])


def _tab_to(page: Page, wanted: Locator) -> None:
    for _ in range(10):
        page.keyboard.press("Tab")
        if wanted.evaluate("each => each === document.activeElement"):
            return
    pytest.fail("ten presses of Tab do not reach it")


def test_a_person_can_read_and_copy_while_the_page_refreshes_itself(visit: Open) -> None:
    """A refresh changes the numbers in place: the focus and the selected text stay where they are."""
    page = visit(FLEET)
    link = _row(page).get_by_role("link", name="counted", exact=True)
    link.focus()
    page.evaluate("getSelection().selectAllChildren(document.querySelector('tr[data-stream=torn] .reason'))")
    chosen = page.evaluate("String(getSelection())")
    assert "pigeons" in chosen
    age = _row(page).locator("time[data-form=for]")
    before = age.inner_text()
    with page.expect_response(lambda answer: "part=fleet" in answer.url and answer.status == 200):
        pass
    expect(age).not_to_have_text(before)
    assert page.evaluate("String(getSelection())") == chosen
    expect(link).to_be_focused()


def test_the_charts_show_what_was_measured_over_the_time_that_a_person_chooses(visit: Open, heard: Heard) -> None:
    page = visit(CHARTS)
    charts = page.locator("#charts[data-drawn=true]")
    expect(page.get_by_role("link", name="since the launch")).to_have_attribute("aria-current", "true")
    for name in ("24h", "15m"):
        page.get_by_role("link", name=name, exact=True).click()
        expect(page.get_by_role("link", name=name, exact=True)).to_have_attribute("aria-current", "true")
        expect(charts.locator("canvas").first).to_be_visible()
    expect(page.locator("#legend")).to_contain_text("L start")
    assert "L" in page.evaluate(SIGNS), "the launch of the driver has no letter"
    chart = page.locator("#chart-rates")
    expect(chart).to_have_attribute("aria-label", re.compile(r"\d"))
    chart.scroll_into_view_if_needed()
    wait_for("a tooltip", lambda: _tooltip(page, chart), timeout=LONG)
    assert page.locator("[data-failed]").count() == 0
    assert (heard.errors, heard.strangers) == ([], [])


def _tooltip(page: Page, chart: Locator) -> bool:
    """Whether one is shown to a mouse that moves over the right half of the chart: what was measured last moves to the
    left while the page is open."""
    box = chart.bounding_box()
    assert box is not None
    for share in (0.98, 0.9, 0.8, 0.7, 0.6, 0.5):
        for aside in (5, 0):
            page.mouse.move(box["x"] + box["width"] * share - aside, box["y"] + box["height"] / 2)
        if page.get_by_text("UTC:").filter(visible=True).count() > 0:
            return True
    return False


def test_what_a_stream_is_made_of_is_one_click_away(visit: Open) -> None:
    page = visit(STREAM)
    for name, said in (
        ("Checkpoint", "Nothing is missing or damaged."),
        ("Advice", "To change"),
        ("File", "name: counted"),
    ):
        page.get_by_role("link", name=name, exact=True).click()
        expect(page.get_by_role("link", name=name, exact=True)).to_have_attribute("aria-current", "page")
        expect(page.locator("main")).to_contain_text(said)


def test_a_log_that_a_person_opened_stays_while_the_page_refreshes_itself(visit: Open, pages: ServedPages) -> None:
    """Also while the table above it gets another line."""
    page = visit(HISTORY)
    details = page.locator("details", has_text="End of its log").first
    details.locator("summary").click()
    log = details.locator("pre")
    expect(log).not_to_be_empty()
    log.evaluate("log => { log.dataset.opened = 'yes'; }")
    now = time.time()
    run, _ = stored("kill_driver", run_id="kill_counted-1", drill="kill_counted", stream="counted", started_at=now)
    pages.space.store.journals.save(replace(run, ended_at=now))
    events = page.get_by_role("region", name="Events").get_by_role("row")
    expect(events.filter(has_text="drill kill_counted")).to_be_visible(timeout=PATIENCE)
    expect(details.locator("pre[data-opened]")).to_be_visible()


def test_the_log_of_a_driver_is_searched_on_the_tab_of_exceptions(visit: Open) -> None:
    """Nothing has failed yet, so the log is that of the newest driver. The address keeps the search."""
    page = visit(f"{STREAM}/exceptions")
    log = page.locator("#log")
    expect(log.locator("pre")).not_to_be_empty()
    page.get_by_label("Search").fill("no record says this")
    expect(log).to_contain_text("fits")
    page.reload()
    expect(page.get_by_label("Search")).to_have_value("no record says this")
    expect(log).to_contain_text("fits")


def test_an_incident_is_acknowledged_beside_its_chart(visit: Open, pages: ServedPages) -> None:
    now, incidents = time.time(), pages.space.store.incidents
    full = Incident(
        incident_id="full",
        stream="counted",
        check="state_size",
        status=Status.WARNING,
        opened_at=now,
        updated_at=now,
        reason=f"the state grows: {'x' * 400}",
    )
    incidents.save(full)
    page = visit(INCIDENTS)
    page.set_viewport_size({"width": PHONE, "height": 900})
    button = page.locator("[data-url='/api/v1/incidents/full/acknowledge']")  # a busy machine may open another incident
    box = button.bounding_box()
    assert box is not None
    assert 0 <= box["x"] <= box["x"] + box["width"] <= PHONE, "a phone does not show the button"
    page.set_viewport_size({"width": DESK, "height": 900})
    page.get_by_role("link", name="state_size", exact=True).click()
    expect(page.locator("#charts[data-drawn=true] #chart-state_size")).to_be_visible()
    has_no_barriers(page)
    button.click()
    dialog = page.get_by_role("dialog", name="Acknowledge this incident?")
    dialog.get_by_label("Reason").fill("a larger disk is ordered")
    dialog.get_by_role("button", name="Acknowledge", exact=True).click()
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("log", name="Results of actions")).to_contain_text("Done.")
    expect(page.get_by_text(re.compile("acknowledged by .*: a larger disk is ordered"))).to_be_visible()
    incidents.save(resolve(full, "the scenario is over", time.time()))


@pytest.mark.parametrize(  # in the first tier the page with most parts: all of them are refreshed by the same script
    "path", [STREAM, *(pytest.param(path, marks=pytest.mark.full) for path in (FLEET, DRILLS, INCIDENTS))]
)
def test_a_page_that_cannot_be_refreshed_looks_old_stays_readable_and_recovers(visit: Open, path: str) -> None:
    page = visit(path)
    part, head = page.locator("[data-refresh]").first, page.locator("#stale")
    expect(part).to_be_visible()
    if path == STREAM:
        expect(page.locator("#charts[data-drawn=true]")).to_be_visible()
    page.context.set_offline(True)
    expect(head).to_have_text(re.compile(r"The marked numbers are \d+\ss old: Airflow does not answer"))
    expect(part).to_have_css("border-left-style", "dashed")
    expect(part).to_have_css("opacity", "1")
    if path == STREAM:
        said = re.compile(r"The charts are \d+\ss old: Airflow does not answer")
        expect(page.locator("#charts-age")).to_have_text(said)
    has_no_barriers(page)
    page.context.set_offline(False)
    expect(head).to_be_hidden()
    expect(part).not_to_have_class(re.compile("stale"))
    expect(page.locator(".stale")).to_have_count(0)


def test_a_part_that_cannot_be_read_stays_old_while_another_one_is_fresh(visit: Open) -> None:
    page = visit(BATCHES)
    page.route("**/*part=batches*", lambda route: route.abort())
    batches, head = page.locator("#batches"), page.locator("#head")
    expect(batches).to_have_class(re.compile("stale"))
    with page.expect_response(re.compile("part=head")) as answer:
        pass
    assert answer.value.ok
    expect(head).not_to_have_class(re.compile("stale"))
    expect(batches).to_have_class(re.compile("stale"))
    expect(page.locator("#stale")).to_be_visible()


def test_charts_that_cannot_be_read_at_all_say_that_they_are_missing(visit: Open) -> None:
    page = visit(DRILLS)
    locked = {"detail": "the store is locked"}
    page.route("**/api/v1/streams/*/charts*", lambda route: route.fulfill(status=503, json=locked))
    page.goto(page.url.replace(DRILLS, STREAM))
    expect(page.locator("#charts-age")).to_have_text("The charts are missing: the store is locked")


def test_an_explanation_is_reached_with_the_keyboard(visit: Open) -> None:
    """The history of the stream is too short for a forecast. The explanation says so, and stays through a refresh."""
    page = visit(FLEET)
    word, said = _row(page).locator("[data-label='forecast'] .tip"), page.get_by_role("tooltip")
    word.focus()
    expect(said).to_have_text(str(word.get_attribute("data-tip")))
    with page.expect_response(re.compile("part=fleet")):
        pass
    expect(said).to_be_visible()
    has_no_barriers(page)
    page.keyboard.press("Escape")
    expect(said).to_be_hidden()


@pytest.mark.parametrize(
    "path",
    [
        *(STREAM, STATE, CHARTS, HISTORY, COMPARE, NOWHERE),
        # In the first tier test_on_call.py holds for the lists, and HISTORY for a tab that is one table.
        *(pytest.param(path, marks=pytest.mark.full) for path in (FLEET, DRILLS, MATRIX, INCIDENTS, BATCHES, *TABS)),
    ],
)
@pytest.mark.parametrize("screens", [SCREENS, pytest.param(OTHERS, marks=pytest.mark.full)], ids=["some", "others"])
def test_everybody_can_read_the_pages(visit: Open, path: str, screens: Sequence[tuple[str, int]]) -> None:
    """In both themes, at a desk and on a phone: no violation that axe-core rates serious or critical, and nothing
    that is wider than the screen."""
    for theme, width in screens:
        page = visit(path, theme)
        expect(page.locator("body")).to_have_css("background-color", THEMES[theme])
        if path in (STREAM, CHARTS):
            expect(page.locator("#charts[data-drawn=true]")).to_be_visible()
        _unfold(page)
        can_be_read(page, width)


def _unfold(page: Page) -> None:
    """Open all details and wait for the logs, which are read then."""
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    expect(page.get_by_text("Reading the log …")).to_have_count(0, timeout=PATIENCE)
