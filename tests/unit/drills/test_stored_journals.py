"""Journals that an earlier version wrote: they decode, give the same report, and a run that was begun goes on."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from streamwarden.config.stored_spec import spec_from_dict, spec_to_dict
from streamwarden.drills.ports import SpecCodec
from streamwarden.drills.recorder import RunRecorder
from streamwarden.drills.records.codec import decode, encode
from streamwarden.drills.records.journal import FORK_STEPS, DrillRun
from streamwarden.drills.records.types import ForkView
from streamwarden.drills.reporting.outcome import decide
from streamwarden.drills.reporting.report import build_report, markdown
from streamwarden.drills.state import WRITERS, RunState
from streamwarden.errors import DrillError
from streamwarden.lifecycle.driver import DriverRecord, ExitKind, ExitRecord
from streamwarden.stream.spec import StreamSpec
from support.simulated.drill_specs import drill
from support.simulated.drill_world import SimulatedDriver, World
from support.streams.stored_journals import JOURNALS, stored

EVERY = pytest.mark.parametrize("name", ["kill_driver", "kill_driver_begun", "retention_passed"])
FINISHED = pytest.mark.parametrize("name", ["kill_driver", "retention_passed"])
WITH_A_SPEC = {"fork", "remediation"}


@EVERY
def test_every_fact_of_a_stored_journal_is_decoded_and_encoded_as_it_was(name: str) -> None:
    run, _ = stored(name)
    state = RunState.of(run)
    assert run.facts.keys() <= {field.name for field in fields(RunState)}
    for key in run.facts.keys() - WITH_A_SPEC:
        written = encode(getattr(state, key), WRITERS)
        if key == "drill":  # a part that came later has its default
            written["fork"] = {part: written["fork"][part] for part in run.facts["drill"]["fork"]}
        expected = run.facts[key]
        if key == "drill":
            fault = {option: value for option, value in expected["fault"].items() if value is not None}
            expected = {**expected, "fault": fault}  # without the options of other kinds
        assert _known(written, expected) == expected, key


def _known(written: Any, stored: Any) -> Any:
    """What is written, without the fields that the earlier version did not have and that have no value."""
    if not isinstance(written, dict) or not isinstance(stored, dict):
        return written
    return {key: _known(value, stored.get(key)) for key, value in written.items() if key in stored or _has_value(value)}


def _has_value(value: Any) -> bool:
    return value not in (None, [], {})


def test_the_spec_of_a_stored_fork_is_read_once_and_written_as_it_was() -> None:
    run, _ = stored("kill_driver")
    view: ForkView = decode(ForkView, run.facts["fork"], {StreamSpec: spec_from_dict})
    assert view.spec.sink.path == view.output
    assert view.spec.name == view.stream
    again: ForkView = decode(ForkView, encode(view, {StreamSpec: spec_to_dict}), {StreamSpec: spec_from_dict})
    assert again == view


@FINISHED
def test_a_stored_journal_gives_the_verdict_and_the_report_that_it_gave(name: str) -> None:
    run, entries = stored(name)
    assert decide(RunState.of(run)).status is run.status
    assert decide(RunState.of(run)).deviated is run.deviated
    assert markdown(build_report(run, entries)) == (JOURNALS / f"{name}.md").read_text()


def test_a_remediation_is_read_from_a_stored_journal() -> None:
    run, _ = stored("retention_passed")
    state = RunState.of(run)
    assert state.refusal is not None
    assert state.refusal.holds
    assert state.remediation is not None
    assert state.remediation.fork.copied == state.fork.copied  # type: ignore[union-attr]
    assert sum(each.end - each.start for each in state.landed.lost) == 90_000


def test_a_run_that_an_earlier_version_began_goes_on_and_is_reported() -> None:
    """Its fault has landed: it recovers, is verified, healed and reported."""
    run, entries = stored("kill_driver_begun")
    fault = RunState.of(run).landed
    world = World(reconciliation=replace(World().reconciliation, records=12_000))
    world.time = fault.moment + 1
    world.planned = {batch: fault.moment - 10 + batch for batch in range(5)}
    world.committed = {batch: at + 1 for batch, at in world.planned.items() if batch < 4}
    world.drivers[fault.driver_id] = killed(run, fault.driver_id, fault.moment)
    world.journals.save(run)
    for entry in entries:
        world.journals.append(run.run_id, entry)
    engine = world.engine(drill())
    for step in FORK_STEPS[2:]:
        run = engine.step(run.run_id, step)
    assert run.passed, run.reason
    assert RunState.of(run).recovery.first_new_batch == 4  # type: ignore[union-attr]
    assert world.drivers["d2"].record.stream == RunState.of(run).fork.stream  # type: ignore[union-attr]
    assert "kill_driver, landed at attempt 1" in world.archive.summaries[run.run_id]


def killed(run: DrillRun, driver_id: str, moment: float) -> SimulatedDriver:
    fork = run.facts["fork"]
    record = DriverRecord(
        driver_id=driver_id,
        stream=fork["stream"],
        checkpoint=fork["checkpoint"],
        token=1,
        folder="/data/drivers/struck",
        launched_by=f"drill:{run.run_id}",
        launched_at=moment - 30,
    )
    exit = ExitRecord(kind=ExitKind.KILLED, ended_at=moment, signal=9)
    return SimulatedDriver(record=record, ready_at=0.0, next_event=0.0, exit=exit)


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ({"fault": {"landed": True}}, "LandedFault without driver_id"),
        ({"halt": {"status": "halted", "step": "fault", "reason": ""}}, "'halted' is not a valid DrillStatus"),
        ({"drill": None}, "NoneType"),
    ],
)
def test_a_journal_that_cannot_be_read_is_an_error_that_names_the_run(broken: dict[str, object], words: str) -> None:
    run, entries = stored("kill_driver")
    with pytest.raises(DrillError, match=words) as error:
        build_report(replace(run, facts={**run.facts, **broken}), entries)
    assert run.run_id in str(error.value)


def test_next_process_reads_the_recorded_journal() -> None:
    world = World()
    engine = world.engine(drill("retention_passed"))
    run = engine.run("retention_passed")
    codec = SpecCodec(read=spec_from_dict, write=spec_to_dict)
    recorder = RunRecorder(run.run_id, world.journals, world, codec)
    assert recorder.remediated_fork is not None
    assert recorder.remediated_fork.spec.source.options == {"failOnDataLoss": "false"}
    state = recorder.state
    recorder.put(
        **{each.name: getattr(state, each.name) for each in fields(RunState) if each.name != "fork"}
        | {
            "fork": recorder.fork,
            "remediation": replace(state.remediation, fork=recorder.remediated_fork),  # type: ignore[type-var]
        }
    )
    assert {key: recorder.run.facts[key] for key in run.facts} == run.facts
    assert recorder.state == state
