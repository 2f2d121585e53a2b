"""What a person on call does with the pages, in a real browser, of a real stream in a real Airflow.

1. From Airflow's navigation to the fleet, from the tab of a DAG to the stream; a search and a theme in Airflow's frame.
2. The person stops the stream, with a reason, and starts it again.
3. An action waits for a DAG that is paused.
4. With `--full`, a drill is started, and its verdict is read.

`test_reading.py` holds how the pages are read and searched, without an Airflow. One stream serves all tests; each
leaves it running as it found it.
"""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import FrameLocator, Locator, Page, Route, expect

from support.airflow.browsing import (
    PATIENCE,
    THEMES,
    Heard,
    Open,
    has_no_barriers,
)
from support.airflow.installation import COUNTED, Installation

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(600)]

STREAM, DRILLS = "/streamwarden/streams/counted", "/streamwarden/drills"


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


def test_the_tab_of_the_dag_leads_to_the_stream_with_its_charts(visit: Open, heard: Heard) -> None:
    page = visit(f"/dags/{COUNTED}")
    page.get_by_role("link", name="Stream", exact=True).click()
    stream = page.frame_locator("iframe")
    expect(stream.get_by_role("heading", name="counted", exact=True)).to_be_visible()
    expect(stream.locator(".tile")).to_have_count(9)
    expect(stream.locator("#charts[data-drawn=true]")).to_be_visible()
    stream.get_by_role("link", name="Charts", exact=True).click()
    expect(stream.get_by_role("link", name="since the launch")).to_have_attribute("aria-current", "true")
    assert (heard.errors, heard.strangers) == ([], [])


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


@pytest.mark.full  # in the first tier test_on_call reads a verdict; dags/web/test_api_runs starts a drill
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


def _loses_the_answer(route: Route) -> None:
    assert route.fetch().ok
    route.fulfill(status=500, json={"detail": "database is locked"})


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
