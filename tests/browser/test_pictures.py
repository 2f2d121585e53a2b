"""The pictures of README.md, taken from a real Airflow: `make pictures`. No other run collects this file.

1. Three streams of the catalogue read the flights of 2013, a file every few seconds. Two more never start.
2. The drill kill_driver kills the driver of a fork, and passes: drill.png and report.png.
3. A user stops flight_departures and starts it again. Then somebody kills its driver: fleet.png shows the fleet in
   Airflow's frame seconds later, fleet-recovered.png and fleet-dark.png when it runs again, stream.png the run.
4. Minutes later stream-page.png shows all of this in the stream's charts.
5. The DAG of aircraft_rotations is paused and its driver is killed, so that nothing restarts it: health.png, and
   incident.png.

The tests build on each other, in this order. Every number in a picture was measured.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, FrameLocator, Locator, Page, expect

from streamwarden.health.check_relations import DRIVER_DOWN
from streamwarden.lifecycle.driver import DriverRecord
from streamwarden.services.replay.replay import replay
from streamwarden.services.workspace import Workspace
from support.airflow.harness import CLOCKED, REPOSITORY, Airflow, running, wait_for

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(1800)]

DEPARTURES, ROTATIONS = "flight_departures", "aircraft_rotations"
READERS = (DEPARTURES, "flight_dedup", ROTATIONS)
"""The streams that run. All of them read the same flights."""
IDLE = ("flight_weather", "user_sessions")
DRILL = "kill_driver"

FLIGHTS = 120_000
"""In the first files: a drill is judged over at least 100,000."""
SPEEDUP = 8_000
"""After them comes a file of 500 flights about every six seconds, for forty minutes."""
HISTORY = 600.0
"""Seconds that a stream has run when its charts of a quarter of an hour are taken."""
LONG = 300.0
"""Seconds after which a condition counts as never fulfilled on a busy machine."""
THRESHOLDS = """
state_growth: {least_history: 1 m, warning: 10 m, critical: 1 m}
batch_longer_than_trigger: {warning: 100, critical: 1000}
"""
"""The streams live for minutes and get a third of a year of flights at once. With thresholds for production their
growth would be unknown for hours, and they would warn of batches that are longer than their trigger."""
WIDTH, HEIGHT = 1280, 900
FRAMED = 640
"""Height of a picture of the fleet in Airflow's frame."""
GRID = 430
"""Pixels from the left to the line between the grid and the page of a run; ten runs need 70 more."""
MARGIN = 16
VALUE = re.compile(r"[1-9]|0\sms")
"""A number that was measured: no dash; only nothing that waits is 0."""


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """The project: five streams of the catalogue, one drill, and the flights."""
    root = tmp_path_factory.mktemp("pictures")
    project = root / "project"
    for folder in ("dags", "spark_jobs"):
        shutil.copytree(REPOSITORY / folder, project / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in (*(f"streams/{stream}" for stream in (*READERS, *IDLE)), f"drills/{DRILL}"):
        copy = project / "config" / f"{name}.yaml"
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / "config" / f"{name}.yaml", copy)
    (project / "config" / "thresholds.yaml").write_text(THRESHOLDS)
    space = Workspace.open(project, root / "data", environ={})
    replay(root / "data" / "input" / "flights", limit=FLIGHTS)
    yield space
    for stream in READERS:
        space.fleet.stop(stream, requested_by="test", reason="the end", batch_deadline=5, term_deadline=5)
    space.close()


@pytest.fixture(scope="module")
def airflow(space: Workspace) -> Iterator[Airflow]:
    """Airflow, with the streams running and judged each minute."""
    wanted = {f"drill_{DRILL}", *(f"stream_{stream}" for stream in READERS)}
    with running(Airflow(space.data.parent / "airflow", space.project, space.data), CLOCKED) as airflow:
        wait_for("the DAGs", lambda: wanted <= airflow.dag_ids(), timeout=LONG)
        for dag_id in wanted:
            airflow.pause(dag_id, False)
        wait_for("the flights", lambda: all(_has_read_all(space, stream) for stream in READERS), timeout=LONG)
        airflow.pause("health", False)
        with _input_flows(space):
            yield airflow


@contextmanager
def _input_flows(space: Workspace) -> Iterator[None]:
    """The replay goes on meanwhile, so that every stream has work."""
    over = threading.Event()

    def wait(seconds: float) -> None:
        if over.wait(seconds):
            raise SystemExit  # ends the thread

    folder = space.data / "input" / "flights"
    thread = threading.Thread(target=replay, args=(folder,), kwargs={"speedup": SPEEDUP, "sleep": wait}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.fixture
def page(browser: Browser, airflow: Airflow) -> Page:
    page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
    page.goto(airflow.url)
    return page


@pytest.fixture(scope="session")
def album(pytestconfig: pytest.Config) -> Path:
    """The folder of `--pictures`."""
    folder = Path(pytestconfig.getoption("--pictures"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def test_the_steps_of_a_drill(airflow: Airflow, page: Page, album: Path) -> None:
    dag_id = f"drill_{DRILL}"
    airflow.trigger(dag_id)
    ended = wait_for("the drill", lambda: _ended(airflow, dag_id), timeout=2 * LONG)
    assert ended == "success"
    _open_run(page, airflow, dag_id)
    expect(page.get_by_text("Success")).to_have_count(7)
    _take(page, album / "drill.png")


def test_the_report_of_a_drill(airflow: Airflow, space: Workspace, page: Page, album: Path) -> None:
    """Up to the healing: the line after it names the folder of this run."""
    (run,) = space.store.journals.recent(drill=DRILL, limit=1)
    page.goto(f"{airflow.url}/streamwarden/drills/{run.run_id}")
    expect(page.locator(".hero").get_by_text("PASSED", exact=True)).to_be_visible()
    _take(page, album / "report.png", last="healing")


def test_a_driver_that_was_killed(airflow: Airflow, space: Workspace, page: Page, album: Path) -> None:
    """Seconds after the kill and after the recovery; the older run of the DAG was stopped on purpose."""
    dag_id = f"stream_{DEPARTURES}"
    first = _followed(airflow, space, other_than="")
    airflow.trigger("stop_stream", stream=DEPARTURES, reason="the archive moves to a larger disk")
    wait_for("the stop", lambda: _state(airflow, dag_id, "stopped") == "deferred", timeout=LONG)
    batches = space.store.batches.summary(DEPARTURES).batches
    airflow.trigger("start_stream", stream=DEPARTURES, reason="the archive has moved")
    second = _followed(airflow, space, other_than=first.driver_id)
    # A first failure is restarted at once only after a committed batch.
    wait_for("a batch", lambda: space.store.batches.summary(DEPARTURES).batches > batches, timeout=LONG)
    page.set_viewport_size({"width": WIDTH, "height": FRAMED})
    page.goto(f"{airflow.url}/plugin/streams")
    expect(page.get_by_role("link", name="Streams", exact=True)).to_be_visible()
    row = _full(page.frame_locator("iframe"))
    _kill(second)
    expect(row).to_contain_text("killed by signal 9")
    page.screenshot(path=album / "fleet.png")
    expect(row.locator(".state")).to_have_text("running", timeout=1000 * LONG)
    expect(row).to_contain_text("1 restart after crashes in 24 h; the last: killed by signal 9")
    expect(row.locator("[data-label=backlog]")).to_have_text(VALUE)
    page.screenshot(path=album / "fleet-recovered.png")
    page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
    page.emulate_media(color_scheme="dark")
    page.goto(f"{airflow.url}/streamwarden/")
    _full(page)
    _take(page, album / "fleet-dark.png")
    page.emulate_media(color_scheme="light")
    _followed(airflow, space, other_than=second.driver_id)
    newest = wait_for("the note of the restart", lambda: airflow.runs(dag_id)[0]["note"], timeout=LONG)
    _open_run(page, airflow, dag_id)
    expect(page.get_by_text(newest).first).to_be_visible()
    expect(page.get_by_text("Deferred").first).to_be_visible()
    _take(page, album / "stream.png")


def _full(fleet: Page | FrameLocator) -> Locator:
    """The row of flight_departures, when the rows of all streams that run have every number."""
    patience = 1000 * LONG
    for stream in READERS:
        row = fleet.locator(f"tr[data-stream={stream}]")
        expect(row.locator(".state")).to_have_text("running", timeout=patience)
        expect(row.locator("svg.spark")).to_be_visible(timeout=patience)
        expect(row.locator("[data-label=forecast]")).to_have_text(re.compile("does not grow|reaches"), timeout=patience)
        for column in ("rows/s", "backlog"):
            expect(row.locator(f"[data-label='{column}']")).to_have_text(VALUE, timeout=patience)
    found = fleet.locator(f"tr[data-stream={DEPARTURES}]")
    expect(found.locator("[data-label='last drill']")).to_contain_text("PASSED")
    return found


def test_the_page_of_a_stream(airflow: Airflow, space: Workspace, page: Page, album: Path) -> None:
    """What it does now, and how its numbers went while it was drilled, stopped, killed and restarted."""
    started = space.store.drivers.history(DEPARTURES, 0)[0].launched_at
    wait_for("charts that are full", lambda: time.time() > started + HISTORY, timeout=HISTORY + LONG)
    page.goto(f"{airflow.url}/streamwarden/streams/{DEPARTURES}")
    expect(page.locator(".lead .state")).to_have_text("running")
    for tile in ("rows/s in", "backlog", "state size"):
        shown = page.locator(".tile", has=page.get_by_role("heading", name=tile, exact=True)).locator("p")
        expect(shown.first).to_have_text(VALUE, timeout=1000 * LONG)
    charts = page.locator("#charts[data-drawn=true]")
    expect(charts).to_be_visible()
    _take_down_to(page, charts.locator(".chart").nth(3), album / "stream-page.png")


def test_the_health_of_all_streams(airflow: Airflow, space: Workspace, page: Page, album: Path) -> None:
    """One task instance for the healthy streams, one for the stream that is down, one for those that do not run."""
    driver = space.store.drivers.latest(ROTATIONS)
    assert driver is not None
    airflow.pause(f"stream_{ROTATIONS}", True)
    _kill(driver)
    wait_for("a run that shows it", lambda: _ended(airflow, "health") == "failed", timeout=LONG)
    _open_run(page, airflow, "health", grid=GRID + 70)
    for label in (ROTATIONS, "2 streams: healthy", "2 streams: not judged"):
        expect(page.get_by_text(label).first).to_be_visible()
    _take(page, album / "health.png")


def test_an_incident(airflow: Airflow, space: Workspace, page: Page, album: Path) -> None:
    """Of the stream that nothing restarts: what was found, what to do, and the moment in a chart."""

    def opened() -> str:
        mine = (each for each in space.store.incidents.open(ROTATIONS) if each.check == DRIVER_DOWN)
        return next((each.incident_id for each in mine), "")

    found = wait_for("the incident", opened, timeout=LONG)
    page.goto(f"{airflow.url}/streamwarden/incidents/{found}")
    expect(page.get_by_role("button", name="Acknowledge", exact=True)).to_be_visible()
    charts = page.locator("#charts[data-drawn=true]")
    expect(charts).to_be_visible()
    _take_down_to(page, charts.locator(".chart").first, album / "incident.png")


def _has_read_all(space: Workspace, stream: str) -> bool:
    return space.store.batches.summary(stream).rows >= FLIGHTS


def _state(airflow: Airflow, dag_id: str, task_id: str = "run") -> str | None:
    task = airflow.task(dag_id, task_id)
    return task["state"] if task is not None else None


def _ended(airflow: Airflow, dag_id: str) -> str | None:
    """How the newest run ended; None while it runs."""
    state = airflow.runs(dag_id)[0]["state"]
    return state if state in ("success", "failed") else None


def _followed(airflow: Airflow, space: Workspace, *, other_than: str) -> DriverRecord:
    """Wait for a new driver of flight_departures whose query runs, and that a deferred task follows."""

    def ready() -> DriverRecord | None:
        record = space.store.drivers.latest(DEPARTURES)
        if record is None or record.driver_id == other_than or record.exit is not None or not record.started_at:
            return None
        return record if _state(airflow, f"stream_{DEPARTURES}") == "deferred" else None

    return wait_for("a driver that is followed", ready, timeout=LONG)


def _kill(driver: DriverRecord) -> None:
    assert driver.process is not None
    os.killpg(driver.process.pid, signal.SIGKILL)


def _open_run(page: Page, airflow: Airflow, dag_id: str, *, grid: int = GRID) -> None:
    """The newest run of a DAG, with room for its grid."""
    page.goto(f"{airflow.url}/dags/{dag_id}/runs/{airflow.runs(dag_id)[0]['dag_run_id']}")
    expect(page.get_by_text("Task Instances").last).to_be_visible()
    handle = page.locator("[data-panel-resize-handle-id]").first.bounding_box()
    assert handle is not None
    x, y = handle["x"] + handle["width"] / 2, handle["y"] + handle["height"] / 3
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(grid, y, steps=5)
    page.mouse.up()
    page.mouse.move(WIDTH / 2, 10)  # nothing is highlighted


def _take(page: Page, path: Path, *, last: str = "") -> None:
    """The page from its top to the last row with this text."""
    page.wait_for_load_state("networkidle")
    row = page.get_by_role("row").filter(visible=True, has_text=last).last.bounding_box()
    assert row is not None
    height = row["y"] + row["height"] + (0 if last else MARGIN)
    page.screenshot(path=path, full_page=True, clip={"x": 0, "y": 0, "width": WIDTH, "height": height})


def _take_down_to(page: Page, last: Locator, path: Path) -> None:
    """The page from its top to the end of this part."""
    box = last.bounding_box()
    assert box is not None
    clip = {"x": 0, "y": 0, "width": WIDTH, "height": box["y"] + box["height"] + MARGIN}
    page.screenshot(path=path, full_page=True, clip=clip)
