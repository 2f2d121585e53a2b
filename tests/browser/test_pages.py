"""What a person on call does with the pages, in a real browser, of a real stream in a real Airflow.

1. From Airflow's navigation to the fleet, from the tab of a DAG to the stream.
2. The person stops the stream, with a reason, and starts it again.
3. Airflow is away, or one part of a page cannot be read: the page says what is old, and why.
4. An incident is acknowledged beside its chart; a drill is started, and its verdict is read.
5. Everything can be read in dark and in light, on a phone, on paper, with the keyboard, and by a screen reader.

One stream serves all tests; each leaves it running as it found it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest
from playwright.sync_api import FrameLocator, Locator, Page, Route, expect

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
from support.airflow.installation import COUNTED, LONG, Installation
from support.streams.stored_journals import stored

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(600)]

FLEET, STREAM = "/streamwarden/", "/streamwarden/streams/counted"
STATE, CHARTS, BATCHES, HISTORY = (f"{STREAM}/{tab}" for tab in ("state", "charts", "batches", "history"))
TABS = [f"{STREAM}/{tab}" for tab in ("exceptions", "incidents", "drills", "checkpoint", "advice", "file")]
DRILLS, INCIDENTS = "/streamwarden/drills", "/streamwarden/incidents"
MATRIX, COMPARE = f"{DRILLS}/matrix", f"{DRILLS}/compare"
NOWHERE = "/streamwarden/streams/nothing"
OTHERS = (("light", PHONE), ("dark", DESK))
"""In the second tier: `SCREENS` hold that each page can be read in each theme, and on each screen."""
SIGNS = """Bokeh.documents.flatMap((sheet) => sheet.roots()).flatMap((plot) => plot.renderers)
    .flatMap((drawn) => [...(drawn.data_source.data.sign ?? [])])"""
"""The letters of the events in the charts."""


def _row(place: Page | FrameLocator, stream: str = "counted") -> Locator:
    return place.locator(f'tr[data-stream="{stream}"]')


def _streams(place: Page | FrameLocator) -> Locator:
    return place.locator("tr[data-stream] th")


def test_the_navigation_leads_to_the_fleet_which_shows_the_running_stream(visit: Open) -> None:
    """Inside Airflow's own frame, with numbers that arrive without a reload."""
    page = visit("/")
    page.get_by_role("link", name="Streams", exact=True).click()
    fleet = page.frame_locator("iframe")
    row = _row(fleet)
    expect(row.locator(".state")).to_have_text("running")
    expect(row.locator("[data-label='rows/s']")).to_have_text(re.compile(r"^[\d.,]+$"))
    expect(row.locator("[data-label='state']")).to_have_text(re.compile(r"\d\s(kB|MB|B)"), timeout=PATIENCE)
    for wanted in ("backlog", "forecast", "last drill"):  # with the state size, what a person on call looks for first
        expect(row.locator(f"[data-label='{wanted}']")).not_to_be_empty()
    whole = fleet.get_by_role("region", name="Streams").evaluate("each => each.scrollWidth <= each.clientWidth")
    assert whole, "the table is wider than Airflow's frame at 1280 pixels"
    expect(_row(fleet, "torn").locator(".state")).to_have_text("broken")
    expect(_row(fleet, "torn")).to_contain_text("pigeons")


def test_the_fleet_is_searched_by_keyboard_and_sorted_by_a_click(visit: Open) -> None:
    page = visit(FLEET)
    expect(_streams(page)).to_have_text(["torn", "counted", "idle", "published"])  # trouble first
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


def test_the_tab_of_the_dag_leads_to_the_stream_with_its_charts(visit: Open, heard: Heard) -> None:
    page = visit(f"/dags/{COUNTED}")
    page.get_by_role("link", name="Stream", exact=True).click()
    stream = page.frame_locator("iframe")
    expect(stream.get_by_role("heading", name="counted", exact=True)).to_be_visible()
    expect(stream.locator(".tile")).to_have_count(9)
    expect(stream.locator("#charts[data-drawn=true]")).to_be_visible()
    stream.get_by_role("link", name="Charts", exact=True).click()
    expect(stream.get_by_role("link", name="since the launch")).to_have_attribute("aria-current", "true")
    page = visit(CHARTS)
    charts = page.locator("#charts[data-drawn=true]")
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
    """Whether one is shown to a mouse that moves over what was measured last, at the right of the chart."""
    box = chart.bounding_box()
    assert box is not None
    for right in (25, 20):
        page.mouse.move(box["x"] + box["width"] - right, box["y"] + box["height"] / 2)
    return page.get_by_text("UTC:").filter(visible=True).count() > 0


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


def test_a_log_that_a_person_opened_stays_while_the_page_refreshes_itself(
    visit: Open, installation: Installation
) -> None:
    """Also while the table above it gets another line."""
    page = visit(HISTORY)
    details = page.locator("details", has_text="End of its log").first
    details.locator("summary").click()
    log = details.locator("pre")
    expect(log).not_to_be_empty()
    log.evaluate("log => { log.dataset.opened = 'yes'; }")
    now = time.time()
    run, _ = stored("kill_driver", run_id="kill_counted-1", drill="kill_counted", stream="counted", started_at=now)
    installation.space.store.journals.save(replace(run, ended_at=now))
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


def test_a_stop_asks_once_wants_a_reason_and_says_how_it_went(visit: Open, installation: Installation) -> None:
    page = visit(STREAM)
    page.get_by_role("button", name="Stop", exact=True).click()
    dialog = page.get_by_role("dialog", name="Stop counted?")
    has_no_barriers(page)
    dialog.get_by_role("button", name="Stop", exact=True).click()
    assert dialog.get_by_label("Reason").evaluate("field => field.validity.valueMissing")
    dialog.get_by_label("Reason").fill("the disk moves")
    dialog.get_by_label("Reason").press("Enter")
    expect(dialog.get_by_role("status")).to_have_text("Done.", timeout=PATIENCE)
    dialog.get_by_role("button", name="Close", exact=True).click()
    expect(page.locator(".lead .state")).to_have_text("stopped")
    page.get_by_role("link", name="Fleet", exact=True).click()
    expect(_row(page)).to_contain_text(re.compile("stopped by .*: the disk moves"))
    page.goto(f"{installation.airflow.url}{STREAM}")
    page.get_by_role("button", name="Start", exact=True).click()
    dialog = page.get_by_role("dialog", name="Start counted?")
    dialog.get_by_label("Reason").fill("the disk has moved")
    dialog.get_by_role("button", name="Start", exact=True).click()
    expect(dialog.get_by_role("status")).to_have_text("Done.", timeout=PATIENCE)
    expect(page.locator(".lead .state")).to_have_text("running", timeout=PATIENCE)


def test_an_action_that_waits_says_why_and_is_cancelled_or_unpaused_where_it_says_so(
    visit: Open, installation: Installation
) -> None:
    """The DAG is paused while the dialog is open. The person closes it and opens another one, which stays that of its
    own action. The next restart finds the DAG paused before it asks."""
    page, airflow = visit(STREAM), installation.airflow
    dialog, outcome = page.get_by_role("dialog"), page.get_by_role("log", name="Results of actions")
    with page.expect_response(re.compile("/api/v2/dags/restart_stream$")):
        page.get_by_role("button", name="Restart", exact=True).click()
    airflow.pause("restart_stream", True)
    try:
        dialog.get_by_label("Reason").fill("to be sure")
        dialog.get_by_label("Reason").press("Enter")
        expect(dialog.get_by_role("status")).to_contain_text("the DAG is paused in Airflow", timeout=PATIENCE)
        expect(dialog.get_by_role("link", name="Open the DAG")).to_have_attribute("href", "/dags/restart_stream")
        dialog.get_by_role("button", name="Close", exact=True).click()
        page.get_by_role("button", name="Stop", exact=True).click()
        outcome.get_by_role("button", name="Cancel the run").evaluate("button => button.click()")  # behind the dialog
        expect(outcome).to_contain_text("The run was cancelled before it began", timeout=PATIENCE)
        expect(dialog.get_by_role("heading")).to_have_text("Stop counted?")
        expect(dialog.locator("#confirm-result")).to_be_empty()
        dialog.get_by_role("button", name="Cancel", exact=True).click()
        page.get_by_role("button", name="Restart", exact=True).click()
        dialog.get_by_label("Reason").fill("to be sure")
        dialog.get_by_role("button", name="Unpause and restart").click()
        expect(dialog.locator("#confirm-result")).to_have_text("Done.", timeout=PATIENCE)
    finally:
        airflow.pause("restart_stream", False)
    dialog.get_by_role("button", name="Close", exact=True).click()
    outcome.get_by_role("button", name="Hide").click()
    expect(outcome).to_be_empty()
    expect(page.locator(".lead .state")).to_have_text("running", timeout=PATIENCE)


def test_an_incident_is_acknowledged_beside_its_chart(visit: Open, installation: Installation) -> None:
    now, incidents = time.time(), installation.space.store.incidents
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


def test_a_drill_is_started_and_its_verdict_is_read(visit: Open, installation: Installation) -> None:
    """Airflow answers the first request with 500, although it took it: the page asks again, and one run begins."""
    page = visit(DRILLS)
    page.route("**/dagRuns", _loses_the_answer, times=1)
    page.get_by_role("button", name="Run", exact=True).click()
    dialog = page.get_by_role("dialog", name="Run the drill kill_idle?")
    dialog.get_by_role("button", name="Run", exact=True).click()
    said = dialog.get_by_role("status")
    expect(said).to_contain_text(re.compile("PASSED: |It failed: "), timeout=2 * PATIENCE)
    expect(said).to_contain_text("PASSED: ", timeout=1)
    assert installation.airflow.call("GET", "/dags/drill_kill_idle/dagRuns")["total_entries"] == 1
    dialog.get_by_role("link", name="Read the report").click()
    verdict = page.locator(".hero").get_by_text("PASSED", exact=True)
    expect(verdict).to_be_visible()
    for heading in ("Course", "Recovery: predicted and measured", "What the judge expected"):
        expect(page.get_by_role("heading", name=heading)).to_be_visible()
    address = page.url.removeprefix(installation.airflow.url)
    for theme, width in SCREENS:
        can_be_read(visit(address, theme), width)
    _prints(visit(address, "dark"), "PASSED")


def _loses_the_answer(route: Route) -> None:
    assert route.fetch().ok
    route.fulfill(status=500, json={"detail": "database is locked"})


def _prints(page: Page, verdict: str) -> None:
    """On paper: the verdict, in dark ink on white; no buttons, and only what the person unfolded of the journal.

    The text of a PDF is glyphs of an embedded font. Its title is the page's own, which has the verdict.
    """
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


def test_a_search_in_airflows_frame_survives_a_reload_and_back_undoes_it(visit: Open) -> None:
    """Airflow's address bar follows, and so does the link to the page outside of the frame."""
    page = visit("/plugin/streams")
    fleet = page.frame_locator("iframe")
    expect(_streams(fleet)).to_have_count(4)
    fleet.get_by_label("Search").press_sequentially("idle")
    expect(_streams(fleet)).to_have_text(["idle"])
    link = fleet.get_by_role("link", name="Link to this view")
    expect(link).to_have_attribute("href", re.compile(r"/streamwarden/\?q=idle$"))
    expect(page).to_have_url(re.compile(r"/plugin/streams/streamwarden/\?q=idle$"))
    page.reload()
    expect(_streams(fleet)).to_have_text(["idle"])
    expect(fleet.get_by_label("Search")).to_have_value("idle")
    fleet.get_by_label("only in trouble").check()
    expect(fleet.get_by_text("No stream fits this search.")).to_be_visible()
    page.go_back()
    expect(_streams(fleet)).to_have_text(["idle"])
    expect(fleet.get_by_label("only in trouble")).not_to_be_checked()
    expect(page).to_have_url(re.compile(r"/plugin/streams/streamwarden/\?q=idle$"))


def test_the_pages_follow_the_theme_of_airflow(visit: Open) -> None:
    """The person changes it in Airflow's menu while the fleet is open."""
    page = visit("/plugin/streams")
    body = page.frame_locator("iframe").locator("body")
    expect(body).to_have_css("background-color", THEMES["light"])
    page.evaluate("""() => {
        localStorage.setItem("theme", "dark");
        document.documentElement.className = document.documentElement.className.replace("light", "dark");
    }""")
    expect(body).to_have_css("background-color", THEMES["dark"])


@pytest.mark.parametrize(
    "path",
    [
        *(FLEET, STREAM, STATE, CHARTS, HISTORY, DRILLS, MATRIX, COMPARE, INCIDENTS, NOWHERE),
        # In the first tier HISTORY holds for a tab that is one table.
        *(pytest.param(path, marks=pytest.mark.full) for path in (BATCHES, *TABS)),
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
