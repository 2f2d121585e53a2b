"""The pictures of README.md, taken from a real Airflow: `make pictures`. No other run collects this file.

1. Three streams of the catalogue read the flights of 2013. Two more never start.
2. A user stops flight_departures and starts it again. Then its driver is killed: fleet.png and fleet-dark.png show the
   fleet at that moment, stream.png the run after it.
3. The drill kill_driver kills the driver of a fork, and passes: drill.png and report.png; stream-page.png has both.
4. The DAG of aircraft_rotations is paused and its driver is killed, so that nothing restarts it: health.png.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from streamwarden.lifecycle.driver import DriverRecord
from streamwarden.services.replay.replay import replay
from streamwarden.services.workspace import Workspace
from support.airflow_harness import REPOSITORY, Airflow, running, wait_for

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(900)]

DEPARTURES, ROTATIONS = "flight_departures", "aircraft_rotations"
READERS = (DEPARTURES, "flight_dedup", ROTATIONS)
"""The streams that run. All of them read the same flights."""
IDLE = ("flight_weather", "user_sessions")
DRILL = "kill_driver"

FLIGHTS = 120_000
"""A drill is judged over at least 100,000."""
LONG = 300.0
"""Seconds after which a condition counts as never fulfilled on a busy machine."""
THRESHOLDS = """
state_growth: {least_history: 1 m, warning: 1 h, critical: 1 m}
batch_longer_than_trigger: {warning: 100, critical: 1000}
"""
"""The streams live for minutes and get half a year of flights at once. With thresholds for production they would be
unknown for a quarter of an hour, and then warn of batches that are longer than their trigger."""
WIDTH = 1280
GRID = 430
"""Pixels from the left to the line between the grid and the page of a run; ten runs need 70 more."""
MARGIN = 16


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
    with running(Airflow(space.data.parent / "airflow", space.project, space.data)) as airflow:
        wait_for("the DAGs", lambda: wanted <= airflow.dag_ids(), timeout=LONG)
        airflow.silence()
        for dag_id in wanted:
            airflow.pause(dag_id, False)
        wait_for("the flights", lambda: all(_has_read_all(space, stream) for stream in READERS), timeout=LONG)
        airflow.pause("health", False)
        yield airflow


@pytest.fixture
def page(browser: Browser, airflow: Airflow) -> Page:
    page = browser.new_page(viewport={"width": WIDTH, "height": 900}, color_scheme="light")
    page.goto(airflow.url)
    return page


@pytest.fixture(scope="session")
def album(pytestconfig: pytest.Config) -> Path:
    """The folder of `--pictures`."""
    folder = Path(pytestconfig.getoption("--pictures"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def test_a_stream_that_was_stopped_and_restarted(airflow: Airflow, space: Workspace, page: Page, album: Path) -> None:
    """The old run was stopped on purpose. The new one runs, and its note says that its driver was restarted."""
    dag_id = f"stream_{DEPARTURES}"
    first = _followed(airflow, space, other_than="")
    airflow.trigger("stop_stream", stream=DEPARTURES, reason="the archive moves to a larger disk")
    wait_for("the stop", lambda: _state(airflow, dag_id, "stopped") == "deferred", timeout=LONG)
    airflow.trigger("start_stream", stream=DEPARTURES, reason="the archive has moved")
    second = _followed(airflow, space, other_than=first.driver_id)
    page.goto(f"{airflow.url}/streamwarden/")
    expect(page.locator(f"tr[data-stream={DEPARTURES}] .state.running")).to_be_visible()
    _kill(second)
    expect(page.locator(f"tr[data-stream={DEPARTURES}]")).to_contain_text("killed by signal 9")
    _take(page, album / "fleet.png")
    page.emulate_media(color_scheme="dark")
    _take(page, album / "fleet-dark.png")
    page.emulate_media(color_scheme="light")
    _followed(airflow, space, other_than=second.driver_id)
    newest = wait_for("the note of the restart", lambda: airflow.runs(dag_id)[0]["note"], timeout=LONG)
    _open_run(page, airflow, dag_id)
    expect(page.get_by_text(newest).first).to_be_visible()
    expect(page.get_by_text("Deferred").first).to_be_visible()
    _take(page, album / "stream.png")


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
    expect(page.get_by_text("PASSED")).to_be_visible()
    _take(page, album / "report.png", last="healing")


def test_the_page_of_a_stream(airflow: Airflow, page: Page, album: Path) -> None:
    """What it does now, the last drill, and how its numbers went while it was stopped, killed and restarted."""
    page.goto(f"{airflow.url}/streamwarden/streams/{DEPARTURES}?range=15m")
    expect(page.locator(".lead .state")).to_have_text("running")
    charts = page.locator("#charts[data-drawn=true]")
    expect(charts).to_be_visible()
    fourth = charts.locator("figure").nth(3).bounding_box()
    assert fourth is not None
    clip = {"x": 0, "y": 0, "width": WIDTH, "height": fourth["y"] + fourth["height"] + MARGIN}
    page.screenshot(path=album / "stream-page.png", full_page=True, clip=clip)


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
