"""Streams that run although no file declares them, and drains: both begin with the drivers that live."""

import time
from pathlib import Path

import pytest

from streamwarden.errors import ConfigError, LeaseHeld
from streamwarden.lifecycle.driver import DriverRecord
from streamwarden.lifecycle.supervision.stop import Desired
from streamwarden.services.fleet.draining import drain
from streamwarden.services.fleet.exits.exit_recorder import Observation
from streamwarden.services.overview.status import gather
from streamwarden.services.workspace import Workspace
from support.streams.launches import launch


def file(space: Workspace) -> Path:
    return space.project / "config/streams/counted.yaml"


def desired(space: Workspace) -> Desired | None:
    state = space.store.stops.desired("counted")
    return None if state is None else state.desired


@pytest.fixture
def alive(space: Workspace) -> DriverRecord:
    """A driver of `counted` that lives: the test's own process stands in for it."""
    return launch(space.store, space.data, space.stream("counted"))


def status_checkpoint(space: Workspace) -> str:
    record = space.store.drivers.latest("counted")
    assert record is not None
    return record.checkpoint


@pytest.mark.usefixtures("alive")
@pytest.mark.parametrize("change", ["removed", "renamed", "extension"])
def test_a_driver_without_a_file_is_shown_as_trouble(space: Workspace, change: str) -> None:
    if change == "removed":
        file(space).unlink()
    elif change == "renamed":
        text = file(space).read_text().replace("name: counted", "name: tallied")
        file(space).with_name("tallied.yaml").write_text(text)
        file(space).unlink()
    else:
        file(space).rename(file(space).with_suffix(".yml"))
    shown = {status.stream: status for status in gather(space, None, now=time.time())}
    status = shown["counted"]
    assert (status.state, status.declared, status.in_trouble) == ("starting", False, True)
    assert "runs without a declaration" in status.problem
    assert gather(space, "counted", now=time.time())[0].problem == status.problem
    assert space.query("counted").name == "counted", "inspect, audit and advise read what it was started with"
    assert space.declared_or_running("counted").checkpoint == status_checkpoint(space), "check judges it"
    space.require_known("counted")


@pytest.mark.usefixtures("alive")
def test_a_driver_whose_file_cannot_be_used_is_trouble_too(space: Workspace) -> None:
    """It runs, and cannot be restarted."""
    file(space).write_text("name: [")
    (status,) = gather(space, None, now=time.time())
    assert (status.state, status.declared, status.in_trouble) == ("starting", False, True)
    assert "counted.yaml" in status.problem


def test_a_stream_that_ran_once_and_has_no_file_is_not_shown(space: Workspace) -> None:
    """But its name is known: it has a history, and can be kept stopped."""
    launch(space.store, space.data, space.stream("counted"), ended=True)
    file(space).unlink()
    assert gather(space, None, now=time.time()) == []
    space.require_known("counted")
    with pytest.raises(ConfigError, match="no stream 'other'"):
        space.require_known("other")


@pytest.mark.usefixtures("alive")
def test_a_fork_of_a_drill_is_none(space: Workspace) -> None:
    from dataclasses import replace

    spec = space.stream("counted")
    launch(space.store, space.data, replace(spec, name="counted__fork_0123456789", checkpoint=f"{spec.checkpoint}-f"))
    assert [status.stream for status in gather(space, None, now=time.time())] == ["counted"]


@pytest.mark.usefixtures("alive")
def test_a_renamed_file_gets_the_advice_to_take_the_stream_over(space: Workspace) -> None:
    declaration = file(space).read_text()
    checkpoint = space.stream("counted").checkpoint
    file(space).unlink()
    renamed = file(space).with_name("tallied.yaml")
    lines = [line for line in declaration.splitlines() if not line.startswith(("name:", "checkpoint:"))]
    renamed.write_text("\n".join(["name: tallied", f"checkpoint: {checkpoint}", *lines]) + "\n")
    with pytest.raises(ConfigError, match="same stream under a new name"):
        space.stream("counted")
    with pytest.raises(LeaseHeld) as held:
        space.fleet.start(space.stream("tallied"), launched_by="test")
    assert "`streamwarden stop counted`, then `streamwarden start tallied`" in held.value.next_step


def test_a_drain_does_not_touch_a_stream_that_was_stopped(space: Workspace) -> None:
    launch(space.store, space.data, space.stream("counted"), ended=True)
    space.fleet.request_stop("counted", requested_by="ann", reason="on purpose")
    assert drain(space.store, space.fleet, requested_by="bob", reason="update") == []
    assert desired(space) is Desired.STOPPED
    (status,) = gather(space, None, now=time.time())
    assert status.state == "stopped"


def test_a_stream_that_never_ran_is_not_wanted_by_a_drain(space: Workspace) -> None:
    assert drain(space.store, space.fleet, requested_by="bob", reason="update") == []
    assert desired(space) is None


def waited(space: Workspace, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The reasons of the stops that a drain waits for; the driver is this process, and does not end."""
    reasons: list[str] = []

    def wait(self: object, request: object) -> Observation:
        reasons.append(request.reason)  # type: ignore[attr-defined]
        record = space.store.drivers.latest("counted")
        assert record is not None
        return Observation(True, None, record)

    monkeypatch.setattr("streamwarden.services.fleet.fleet.Fleet.wait_for_stop", wait)
    return reasons


@pytest.mark.usefixtures("alive")
@pytest.mark.parametrize("declared", [True, False])
def test_a_drain_ends_a_living_driver_which_stays_wanted(
    space: Workspace, monkeypatch: pytest.MonkeyPatch, declared: bool
) -> None:
    if not declared:
        file(space).unlink()
    reasons = waited(space, monkeypatch)
    drain(space.store, space.fleet, requested_by="bob", reason="update")
    assert reasons == ["update"]
    assert desired(space) is not Desired.STOPPED


@pytest.mark.usefixtures("alive")
def test_a_drain_waits_for_a_stop_that_is_under_way(space: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    space.fleet.request_stop("counted", requested_by="ann", reason="on purpose")
    reasons = waited(space, monkeypatch)
    drain(space.store, space.fleet, requested_by="bob", reason="update")
    assert reasons == ["on purpose"]
    assert desired(space) is Desired.STOPPED
