"""A topic that gets partitions, loses records or is recreated: what passes, and what each fault must not let pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamwarden.drills.faults import FAULTS
from streamwarden.drills.records.journal import DrillRun, DrillStatus
from streamwarden.drills.records.sections import ForkSpec, RecoverySpec
from streamwarden.drills.reporting.report import verdict_word
from streamwarden.drills.spec import DrillSpec
from streamwarden.errors import DrillAborted
from streamwarden.health.verdict import Status
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.lifecycle.forks.topic_copy import Feed
from support.simulated.drill_specs import declared, drill, fault_of
from support.simulated.drill_topics import TOPIC, UNIT
from support.simulated.drill_world import World

ADDED, PASSED, RECREATED = "partitions_added", "retention_passed", "topic_recreated"
REFUSED = pytest.mark.parametrize("kind", [PASSED, RECREATED])
EVERY = pytest.mark.parametrize("kind", [ADDED, PASSED, RECREATED])


def run(world: World, kind: str, turn: Callable[[Any], None] = lambda topic: None, **changes: object) -> DrillRun:
    turn(world.input)
    spec = fault_of(kind, attempts=2, within=60.0)
    return world.engine(drill(kind, fault=spec, **changes)).run(kind)


def knob(name: str, value: object) -> Callable[[Any], None]:
    return lambda topic: setattr(topic, name, value)


def assert_deviated(result: DrillRun, words: str) -> None:
    assert verdict_word(result) == "DEVIATED", result.reason
    assert words in result.reason
    assert result.facts["healing"]["clean"]


@EVERY
@pytest.mark.parametrize("source", ["files", "rate", "script"])
def test_stream_without_a_topic_is_refused_with_an_alternative(kind: str, source: str) -> None:
    with pytest.raises(DrillAborted, match=f"{kind} is not applicable.*kind {source}.*kill_driver"):
        fault_of(kind).require("flights", declared(source=source))
    fault_of(kind).require("flights", declared(source="kafka"))


@EVERY
def test_a_copied_topic_has_other_offsets_so_the_fork_begins_from_nothing(kind: str) -> None:
    assert FAULTS[kind].feed is not Feed.ORIGIN
    with pytest.raises(ValueError, match=r"fork\.rewind is 3, allowed is `all`"):
        DrillSpec(name="d", stream="s", fault=fault_of(kind), fork=ForkSpec(rewind=3))


def test_a_stream_that_reads_new_partitions_by_itself_passes() -> None:
    world = World()
    result = run(world, ADDED)
    assert result.passed, result.reason
    proof, recovery = result.facts["fault"], result.facts["recovery"]
    assert proof["evidence"]["partitions_before"] == 2
    assert proof["evidence"]["partitions_after"] == 4
    assert proof["evidence"]["first_batch"] == recovery["first_new_batch"] == 6, "the first six had the first half"
    assert proof["records"] == result.facts["reconciliation"]["records"] == 12 * 2 * UNIT
    assert list(world.drivers) == ["d1"]
    assert not recovery["restarted"]
    assert world.drivers["d1"].exit.kind is ExitKind.STOPPED  # type: ignore[union-attr]
    assert f"from the topic {TOPIC}: a copy of flights" in world.archive.summaries[result.run_id]


def test_a_stream_that_ends_when_partitions_come_is_started_again_as_supervision_does() -> None:
    world = World()
    result = run(world, ADDED, knob("driver_dies", True))
    assert result.passed, result.reason
    assert list(world.drivers) == ["d1", "d2"]


def test_a_stream_that_never_reads_the_new_partitions_never_came_back() -> None:
    world = World()
    result = run(world, ADDED, knob("sees_partitions", False), recovery=RecoverySpec(target=30.0, deadline=200.0))
    assert_deviated(result, "never came back")
    assert "no batch reads from them yet" in result.facts["fault"]["message"]


@EVERY
def test_a_record_that_no_batch_has_is_missed_although_every_row_is_as_expected(kind: str) -> None:
    result = run(World(), kind, knob("unread", 1))
    there = result.facts["fault"]["records"]
    assert_deviated(result, f"{there - 1:,} records were read, and the fork's topic has {there:,}")
    assert result.facts["steps"]["verification"]["outcome"] == "failed"


def test_a_loss_that_is_reported_to_the_record_passes_with_the_remediation() -> None:
    world = World()
    result = run(world, PASSED)
    assert result.passed, result.reason
    proof, refusal, recovery = (result.facts[name] for name in ("fault", "refusal", "recovery"))
    lost = {each["partition"]: each["end"] - each["start"] for each in proof["lost"]}
    read = proof["committed"] + 1
    assert lost == dict.fromkeys((0, 1), (12 - read) * UNIT // 4), "a quarter of what was unread"
    assert refusal["check"]["evidence"]["lost_by_partition"] == {
        f"{TOPIC}-{part}": count for part, count in lost.items()
    }
    assert result.facts["reconciliation"]["records"] == 12 * 2 * UNIT - sum(lost.values()) == proof["records"]
    kinds = [driver.exit.kind for driver in world.drivers.values()]  # type: ignore[union-attr]
    assert kinds == [ExitKind.STOPPED, ExitKind.FAILED, ExitKind.STOPPED]
    options = [fork.spec.source.options for fork in world.input.forks.values()]
    assert options == [{}, {}, {"failOnDataLoss": "false"}], "for the start that goes on alone"
    assert recovery["recovery_seconds"] == pytest.approx(12.0, abs=0.2), "from the launch of the remediated fork"
    assert result.facts["predicted"]
    assert "supervision leaves it down" in result.reason
    report = world.archive.summaries[result.run_id]
    assert "| refusal | yes: the driver ended 10.0 s after its launch and reported why" in report
    assert "after the remediation was applied" in report


def test_a_topic_that_was_recreated_passes_with_a_new_checkpoint() -> None:
    world = World()
    result = run(world, RECREATED)
    assert result.passed, result.reason
    proof, recovery = result.facts["fault"], result.facts["recovery"]
    assert proof["planned"] == proof["committed"] == 11, "the whole topic was read"
    assert proof["records"] == result.facts["reconciliation"]["records"] == 12 * 2 * UNIT * 9 // 10
    assert result.facts["refusal"]["check"]["evidence"]["made_anew"] == [f"{TOPIC}-0", f"{TOPIC}-1"]
    assert recovery["first_new_batch"] == 0
    assert result.facts["remediation"]["fork"]["checkpoint"].endswith("checkpoint-renewed")
    assert world.input.renewals == 1
    assert "predicted" not in result.facts, "what a restart on the old checkpoint takes says nothing of this one"


@REFUSED
def test_a_stream_that_goes_on_in_silence_deviates(kind: str) -> None:
    """Which is what failOnDataLoss: "false" in its spec makes of it, although nothing after that is wrong."""
    result = run(World(), kind, knob("silent", True))
    if kind is PASSED:
        assert_deviated(result, "the stream went on in silence: batch")
    else:  # nothing new came, so it waits
        assert_deviated(result, "the stream did not end within 90.0 s after its launch: the driver is still alive")
    assert "refusal" in result.facts
    assert "remediation" not in result.facts
    assert result.facts["steps"]["verification"]["outcome"] == "failed"
    assert result.reason.count("went on") + result.reason.count("did not end") == 1


@REFUSED
@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("names_reason", False, "the driver's exit: it names another cause, or none: the driver failed"),
        ("curable", True, "supervision: it would start the stream again"),
        ("counts_wrong", 1, "the check input_lost: it reports"),
        ("check_status", Status.OK, "the check input_lost: it is OK"),
    ],
)
def test_a_loss_that_is_reported_in_part_only_deviates(kind: str, name: str, value: object, words: str) -> None:
    world = World()
    assert_deviated(run(world, kind, knob(name, value)), words)
    assert "| refusal | no: the fault was not reported in full" in next(iter(world.archive.summaries.values()))


@REFUSED
def test_what_was_not_removed_is_a_miss(kind: str) -> None:
    result = run(World(total_batches=40), kind, knob("removes", False))
    assert result.status is DrillStatus.FAILED
    assert result.deviated is None
    assert "the fault did not land in 2 attempts" in result.reason


def test_a_fork_that_has_read_all_has_nothing_to_lose() -> None:
    """It is parked only after its whole topic was read."""
    world = World(stop_is_late=True)
    result = run(world, PASSED)
    assert result.status is DrillStatus.FAILED
    assert "no record was left to remove" in result.reason
