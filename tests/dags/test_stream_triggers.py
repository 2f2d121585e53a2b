"""What the triggers take for a person's request, and what they do not. The store is real; Airflow's answer is given."""

from __future__ import annotations

import asyncio
import subprocess
import time
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import TaskInstanceState
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from streamwarden.adapters.processes import identity
from streamwarden.adapters.store.drivers.stops import SqlStopRepository
from streamwarden.airflow import triggers
from streamwarden.airflow.triggers import DriverTrigger, StandbyTrigger, StoppedTrigger
from streamwarden.errors import StoreError
from streamwarden.lifecycle.driver import DriverRecord, ProcessIdentity
from streamwarden.lifecycle.supervision.stop import Desired, DesiredState
from streamwarden.services.fleet.exits.exit_recorder import Observation
from streamwarden.services.workspace import Workspace


@pytest.fixture(autouse=True)
def pace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's answers come fast, and are waited for long."""
    monkeypatch.setattr(triggers, "STATE_SETTLES", 30.0)
    monkeypatch.setattr(triggers, "ASK_AGAIN", 0.05)


def airflow_says(monkeypatch: pytest.MonkeyPatch, *states: str | Exception | None) -> None:
    """The answers to a trigger that asks for its task's state, in turn; the last one stays."""
    answers = list(states)

    def answer(*, run_ids: list[str], task_ids: list[str], **_: Any) -> dict[str, Any]:
        state = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(state, Exception):
            raise state
        return {run_ids[0]: {task_ids[0]: state}} if state else {}

    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", staticmethod(answer))


def driver_trigger(space: Workspace, *, supervises: bool = True) -> DriverTrigger:
    trigger = DriverTrigger(stream="counted", project=str(space.project), driver_id="d", supervises=supervises)
    trigger.task_instance = SimpleNamespace(task_id="run", dag_id="stream_counted", run_id="r")  # type: ignore[assignment]
    return trigger


def desired(space: Workspace) -> Desired | None:
    state = space.store.stops.desired("counted")
    return state.desired if state is not None else None


def test_a_task_that_a_person_marked_failed_stops_its_stream(space: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """The request is owned: it says that it came from a mark in Airflow, and of which run."""
    airflow_says(monkeypatch, "failed")
    asyncio.run(driver_trigger(space).on_kill())
    state = space.store.stops.desired("counted")
    assert state is not None
    assert state.desired is Desired.STOPPED
    assert state.changed_by == "airflow: marked failed"
    assert "stream_counted r run" in state.reason


@pytest.mark.parametrize("state", ["deferred", "running", "success", "up_for_retry", "scheduled", None])
def test_any_other_end_of_a_trigger_leaves_the_driver_alone(
    space: Workspace, monkeypatch: pytest.MonkeyPatch, state: str | None
) -> None:
    """Cleared, marked successful, moved to another triggerer: none of these asks for a stop."""
    monkeypatch.setattr(triggers, "STATE_SETTLES", 0.3)
    airflow_says(monkeypatch, state)
    asyncio.run(driver_trigger(space).on_kill())
    assert desired(space) is None


def test_a_mark_that_shows_late_or_through_an_outage_is_still_obeyed(
    space: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API server is away for a moment, then still says deferred, then failed."""
    airflow_says(monkeypatch, OSError("connection refused"), "deferred", "failed")
    asyncio.run(driver_trigger(space).on_kill())
    assert desired(space) is Desired.STOPPED


def test_a_mark_is_obeyed_through_an_outage_of_the_store(space: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody marks it twice: the request is tried until the store takes it."""
    airflow_says(monkeypatch, "failed")
    real, outages = SqlStopRepository.set_desired, [StoreError("the database server cannot be reached")] * 2

    def taken_at_last(stops: SqlStopRepository, state: DesiredState) -> None:
        if outages:
            raise outages.pop()
        real(stops, state)

    monkeypatch.setattr(SqlStopRepository, "set_desired", taken_at_last)
    asyncio.run(driver_trigger(space).on_kill())
    assert desired(space) is Desired.STOPPED


def test_a_second_cancel_does_not_abort_the_request(space: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow cancels a trigger again after a second: the stop request is made all the same."""
    airflow_says(monkeypatch, "deferred", "deferred", "failed")

    async def cancelled_twice() -> None:
        killing = asyncio.create_task(driver_trigger(space).on_kill())
        await asyncio.sleep(0.02)
        killing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await killing
        deadline = time.monotonic() + 30
        while desired(space) is None and time.monotonic() < deadline:
            await asyncio.sleep(0.02)

    asyncio.run(cancelled_twice())
    assert desired(space) is Desired.STOPPED


def test_the_trigger_of_a_control_dag_asks_for_nothing(space: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Marking the task of restart_stream failed does not stop the stream."""
    airflow_says(monkeypatch, "failed")
    asyncio.run(driver_trigger(space, supervises=False).on_kill())
    assert desired(space) is None


def test_a_driver_is_followed_to_its_end_while_airflow_answers_nothing(
    space: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API server is away: the trigger looks at the driver's process itself, and fires when that has ended, at its
    next look: it does not wait until the log is due to be read."""
    airflow_says(monkeypatch, OSError("connection refused"))
    monkeypatch.setattr(triggers, "_asked", set())
    monkeypatch.setattr(triggers, "SHOW", 3600.0)
    child = subprocess.Popen(["sleep", "600"])
    space.store.drivers.launched(
        DriverRecord(
            driver_id="d",
            stream="counted",
            checkpoint=space.stream("counted").checkpoint,
            token=1,
            folder=str(space.data / "nowhere"),
            launched_by="test",
            launched_at=time.time(),
            process=identity(child.pid),
        )
    )

    async def followed() -> Any:
        fired = asyncio.ensure_future(anext(driver_trigger(space).run()))
        deadline = time.monotonic() + 30
        while not triggers._asked and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        assert not fired.done(), "the driver lives"
        child.kill()
        child.wait()
        return (await asyncio.wait_for(fired, 30)).payload

    assert asyncio.run(followed())["driver_id"] == "d"


def first_event(trigger: StandbyTrigger | StoppedTrigger, within: float) -> Any:
    async def first() -> Any:
        async for event in trigger.run():
            return event.payload
        return None

    return asyncio.run(asyncio.wait_for(first(), within))


def test_a_backoff_ends_at_its_time(space: Workspace) -> None:
    """Not before, and not much later."""
    now = time.time()
    trigger = StandbyTrigger(stream="counted", project=str(space.project), since=now, until=now + 0.5)
    assert "back-off" in first_event(trigger, 10)["resume"]
    assert time.time() >= now + 0.5


@pytest.mark.parametrize("wanted", [Desired.RUNNING, Desired.STOPPED])
def test_a_person_cuts_a_backoff_short(space: Workspace, wanted: Desired) -> None:
    """A start launches at once; a stop holds at once."""
    since = time.time() - 1
    if wanted is Desired.RUNNING:
        space.fleet.set_running("counted", "ann", "now")
    else:
        space.fleet.request_stop("counted", requested_by="ann", reason="now")
    trigger = StandbyTrigger(stream="counted", project=str(space.project), since=since, until=since + 3600)
    assert "ann" in first_event(trigger, 10)["resume"]


def test_a_request_from_before_the_backoff_does_not_cut_it(space: Workspace) -> None:
    """It was known when the back-off began."""
    space.fleet.set_running("counted", "ann", "then")
    trigger = StandbyTrigger(
        stream="counted", project=str(space.project), since=time.time() + 1, until=time.time() + 3600
    )
    with pytest.raises(TimeoutError):
        first_event(trigger, 0.5)


def test_a_stopped_stream_waits_until_it_is_wanted(space: Workspace) -> None:
    """No time ends that wait. A start ends the task as a success, and no worker is needed for it."""
    space.fleet.request_stop("counted", requested_by="ann", reason="moving")
    trigger = StoppedTrigger(stream="counted", project=str(space.project))
    with pytest.raises(TimeoutError):
        first_event(trigger, 0.5)
    space.fleet.set_running("counted", "bob", "moved")
    assert first_event(trigger, 10) == TaskInstanceState.SUCCESS


def test_the_mark_of_a_stopped_stream_is_not_a_request(space: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream is stopped already: the record of who stopped it, and why, stays."""
    airflow_says(monkeypatch, "failed")
    space.fleet.request_stop("counted", requested_by="ann", reason="moving")
    asyncio.run(StoppedTrigger(stream="counted", project=str(space.project)).on_kill())
    state = space.store.stops.desired("counted")
    assert state is not None
    assert (state.changed_by, state.reason) == ("ann", "moving")


@pytest.mark.parametrize(
    "trigger",
    [
        DriverTrigger(stream="s", project="/p", driver_id="s-1", supervises=False),
        StoppedTrigger(stream="s", project="/p"),
        StandbyTrigger(stream="s", project="/p", since=1.5, until=2.5),
    ],
)
def test_a_trigger_can_be_made_again_by_another_triggerer(
    trigger: DriverTrigger | StandbyTrigger | StoppedTrigger,
) -> None:
    """From its class path and arguments alone, none of which is a secret: the store's URL is not among them."""
    from airflow._shared.module_loading import import_string

    path, arguments = trigger.serialize()
    assert import_string(path)(**arguments).serialize() == (path, arguments)
    assert not any("url" in name for name in arguments)


def test_a_driver_of_another_host_is_asked_for_by_its_lease_but_not_each_time(
    space: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand drivers of other hosts must not cost a thousand queries at each look."""
    abroad = DriverRecord(
        driver_id="d",
        stream="counted",
        checkpoint="/cp",
        token=1,
        folder="/none",
        launched_by="test",
        launched_at=0.0,
        process=ProcessIdentity(host="elsewhere/boot/1", pid=1, started_at=1),
    )
    looked: list[str] = []

    def observe(driver_id: str) -> Observation:
        looked.append(driver_id)
        return Observation(alive=True, exit=None, record=abroad)

    monkeypatch.setattr(space.fleet, "observe", observe)
    now = [0.0]
    watch = triggers.DriverWatch(space, "d", clock=lambda: now[0])
    for _ in range(9):
        assert watch.ended() is None
        now[0] += triggers.POLL
    assert len(looked) == 9 * triggers.POLL / triggers.ASK_ABROAD
