"""A service that is stopped and started again: what lands, what is a miss, and that it is always started again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from streamwarden.drills.faults.service_outage import CommandResult, OutageService, OutageSpec
from streamwarden.drills.records.journal import DrillRun, DrillStatus, DrillStep
from streamwarden.drills.records.types import ForkView
from streamwarden.drills.reporting.report import verdict_word
from streamwarden.errors import InvalidValue
from streamwarden.lifecycle.driver import ExitKind
from support.simulated.checkpoint import SimulatedCheckpoint
from support.simulated.drill_specs import OUTAGE, drill, fault_of
from support.simulated.drill_world import Killed, World

KIND = "service_outage"


def run(world: World, outage: OutageSpec = OUTAGE, **changes: object) -> DrillRun:
    spec = fault_of(KIND, outage=outage, **changes)  # type: ignore[arg-type]
    return world.engine(drill(KIND, fault=spec)).run(KIND)


def assert_started_again(world: World) -> None:
    assert world.service.down_since is None
    assert world.service.commands[-1] == "up"


def test_a_stream_that_waits_for_its_service_goes_on_with_the_batch_that_hung() -> None:
    world = World()
    result = run(world)
    assert result.passed, result.reason
    proof = result.facts["fault"]
    assert proof["planned"] == proof["committed"] + 1
    assert proof["evidence"]["still_seconds"] >= 20 - 2
    assert proof["evidence"]["batch_seconds"] == pytest.approx(2.0)
    assert f"batch {proof['planned']} hung" in proof["message"]
    assert proof["moment"] == pytest.approx(proof["evidence"]["gone_at"] + 20, abs=0.2), "when it was back"
    assert result.facts["recovery"]["driver_id"] == "d1"
    assert result.facts["predicted"][0]["seconds"] == pytest.approx(2.0)
    assert world.service.commands == ["down", "up"], "and not once more when it is healed"


def test_a_driver_that_gives_up_is_started_again_as_supervision_does() -> None:
    world = World(patience=10.0)
    result = run(world)
    assert result.passed, result.reason
    assert list(world.drivers) == ["d1", "d2"]
    assert result.facts["recovery"]["restarted"]
    assert any("start-up" in term["name"] for each in result.facts["predicted"] for term in each["terms"])


def test_a_driver_that_gives_up_only_when_its_service_is_back_is_started_again_too() -> None:
    world = World(gives_up_late=5.0)
    result = run(world)
    assert result.passed, result.reason
    assert list(world.drivers) == ["d1", "d2"]
    assert result.facts["recovery"]["recovery_seconds"] == pytest.approx(5.0 + 10.0 + 2.0, abs=1.0)


def test_a_driver_that_no_restart_cures_never_came_back() -> None:
    world = World(patience=10.0, failure_is_curable=False)
    result = run(world)
    assert verdict_word(result) == "DEVIATED"
    assert "never came back" in result.reason
    assert "TimeoutException" in result.reason
    assert len(world.drivers) == 1
    assert_started_again(world)


def test_a_command_that_stops_nothing_is_a_miss() -> None:
    world = World(down_works=False, total_batches=60)
    result = run(world, attempts=2)
    assert result.status is DrillStatus.FAILED
    assert result.deviated is None
    assert "the source at one:9092 still answers 15 s after `down`" in result.reason
    assert "recovery" not in result.facts
    assert world.service.commands == ["down", "up", "down", "up"], "it may have done half of it"


def test_a_command_that_fails_is_a_miss_with_its_own_words() -> None:
    world = World(down_status=3, total_batches=60)
    result = run(world, attempts=1)
    assert result.status is DrillStatus.FAILED
    assert "`down` ended with status 3: down said this" in result.reason
    assert_started_again(world)


def test_a_service_that_something_else_starts_again_is_a_miss() -> None:
    result = run(World(restarted_by_others=8.0, total_batches=60), attempts=1)
    assert result.status is DrillStatus.FAILED
    assert "came back before `up`: something else started it" in result.reason


def test_an_outage_without_effect_on_the_stream_is_a_miss() -> None:
    """It went on committing: the stopped service is not the one that it needs."""
    world = World(outage_has_effect=False, total_batches=400)
    result = run(world, attempts=1)
    assert result.status is DrillStatus.FAILED
    assert "no batch was committed for" in result.reason
    assert_started_again(world)


def test_an_outage_shorter_than_its_batches_lasts_until_it_has_an_effect() -> None:
    result = run(World(), replace(OUTAGE, lasts=1.0))
    assert result.passed, result.reason
    seen = result.facts["fault"]["evidence"]
    assert 4.0 <= seen["still_seconds"] < 4.5, "twice a batch of 2 s"


def test_an_outage_in_which_the_input_runs_out_is_a_miss() -> None:
    result = run(World(outage_has_effect=False, total_batches=20), attempts=1)
    assert result.status is DrillStatus.FAILED
    assert "no batch waited for it: batch 19 was committed" in result.reason


def test_a_service_that_is_down_before_the_fault_is_a_miss() -> None:
    world = World(total_batches=60)
    probe = world.service.probe
    world.service.probe = lambda fork, service: replace(probe(fork, service), answers=False)  # type: ignore[method-assign]
    result = run(world, attempts=1)
    assert "did not answer before the fault: refused" in result.reason
    assert world.service.commands == []


def test_a_service_that_is_not_started_again_fails_the_drill_and_its_healing() -> None:
    world = World(up_failures=99, total_batches=60)
    result = run(world)
    assert result.status is DrillStatus.FAILED
    assert "the service was not started again: `up` ended with status 1: up said this" in result.reason
    assert "by hand now" in result.reason
    assert result.facts["steps"][DrillStep.HEAL]["outcome"] == "failed"
    assert "was not started again" in result.facts["healing"]["message"]
    assert not result.facts["healing"]["clean"]
    assert world.service.commands == ["down", "up", "up"], "the healing tried it once more"
    assert world.drivers["d1"].exit is not None, "the driver is ended all the same"
    assert world.cleared == 1, "and what it had is removed"
    assert "removed: fork/input" in result.facts["healing"]["message"]


def test_a_service_that_does_not_answer_after_up_is_not_back() -> None:
    world = World(up_starts=False, total_batches=60)
    result = run(world)
    assert result.status is DrillStatus.FAILED
    assert "the source at one:9092 does not answer 60 s after `up`" in result.reason
    assert not result.facts["healing"]["clean"]


def test_a_command_that_brings_it_back_at_the_second_time_heals() -> None:
    world = World(up_failures=1, total_batches=60)
    result = run(world)
    assert result.status is DrillStatus.FAILED
    assert result.facts["healing"]["clean"]
    assert_started_again(world)


@pytest.mark.parametrize("where", ["after_down", "before_up", "after_up"])
def test_a_process_killed_in_mid_outage_leaves_it_to_the_healing(where: str) -> None:
    """The fault's task never comes again: the healing's brings the service back."""
    world = World(total_batches=60)
    engine = world.engine(drill(KIND))
    run_id = engine.begin(KIND)
    engine.step(run_id, DrillStep.STEADY_STATE)
    world.die_at = where
    if where == "after_down":  # and with it everything that would have run `up`
        run_command, world.service.run = world.service.run, _dead_after_down(world)  # type: ignore[method-assign]
    with pytest.raises(Killed):
        engine.step(run_id, DrillStep.FAULT)
    if where == "after_down":
        assert world.service.down_since is not None
        world.service.run = run_command  # type: ignore[method-assign]
    for step in (DrillStep.RECOVERY, DrillStep.VERIFICATION, DrillStep.HEAL, DrillStep.REPORT):
        result = engine.step(run_id, step)
    assert "the step fault did not finish" in result.reason
    assert result.facts["healing"]["clean"]
    assert any(entry.kind == "undone" for entry in world.journals.entries(run_id))
    assert_started_again(world)


def _dead_after_down(world: World) -> Callable[..., CommandResult]:
    real = world.service.run

    def run(command: Sequence[str], *, within: float) -> CommandResult:
        if tuple(command) == OUTAGE.up:
            raise Killed("a dead process runs no command")
        return real(command, within=within)

    return run


def test_a_folder_has_no_service_and_nothing_starts() -> None:
    world = World(source="files")
    result = run(world)
    assert result.status is DrillStatus.ABORTED
    assert "not applicable: the source of flights is of the kind files" in result.reason
    assert not world.drivers
    assert world.service.commands == []


@pytest.mark.parametrize("key", ["down", "up"])
@pytest.mark.parametrize(
    "command",
    [["psql", "--password", "hunter2-x"], ["psql", "postgresql://a:hunter2-x@db"], ["x", "token=hunter2-x"]],
)
def test_a_command_may_hold_no_secret(key: str, command: list[str]) -> None:
    """The journal keeps the command, and a run reads it from there: without the secret it would be another command."""
    commands = {"down": ("stop",), "up": ("start",), key: tuple(command)}
    with pytest.raises(InvalidValue, match="no secret: let the program read it") as error:
        OutageSpec(service=OutageService.SINK, **commands)
    assert "hunter2" not in str(error.value)
    OutageSpec(service=OutageService.SINK, down=("stop", "--password-file", "/etc/password"), up=("start",))


def outage_of(service: OutageService) -> OutageSpec:
    return replace(OUTAGE, service=service)


def test_a_stream_goes_on_without_the_store_and_the_drill_writes_its_journal_afterwards() -> None:
    world = World(outage_has_effect=False, batch_seconds=4.0, total_batches=20)
    world.service.is_store = True
    result = run(world, outage_of(OutageService.STORE))
    assert result.passed, result.reason
    proof = result.facts["fault"]
    assert proof["evidence"]["went_on"]
    assert "was committed meanwhile" in proof["message"]
    assert result.facts["recovery"]["driver_id"] == "d1"
    assert_started_again(world)


def test_a_stream_that_reads_all_its_input_without_the_store_needs_no_batch_after_it() -> None:
    world = World(outage_has_effect=False, batch_seconds=1.0, total_batches=10)
    world.service.is_store = True
    result = run(world, outage_of(OutageService.STORE))
    assert result.passed, result.reason
    recovery, proof = result.facts["recovery"], result.facts["fault"]
    assert recovery["first_new_batch"] <= proof["evidence"]["committed"]
    assert recovery["first_commit_at"] < proof["evidence"]["back_at"]


def test_a_stream_that_stands_still_without_the_store_deviates() -> None:
    world = World()
    world.service.is_store = True
    result = run(world, outage_of(OutageService.STORE))
    assert verdict_word(result) == "DEVIATED"
    assert "no batch was committed during an outage of Streamwarden's store, which no batch needs" in result.reason


def test_a_stream_that_ends_without_the_store_is_not_started_again() -> None:
    world = World(patience=10.0)
    world.service.is_store = True
    result = run(world, outage_of(OutageService.STORE))
    assert verdict_word(result) == "DEVIATED"
    assert "never came back" in result.reason
    assert len(world.drivers) == 1


def test_a_store_outage_without_input_to_read_is_a_miss() -> None:
    """What the stream would have done cannot be seen."""

    class Read(SimulatedCheckpoint):
        def unplanned(self, fork: ForkView) -> int:
            return 0

    world = World()
    world.checkpoint = Read(world)
    result = run(world, outage_of(OutageService.STORE), attempts=1)
    assert result.status is DrillStatus.FAILED
    assert "the stream had no input left to read meanwhile" in result.reason


def test_a_master_that_comes_back_without_recovery_ends_the_driver_which_is_started_again() -> None:
    world = World(outage_has_effect=False, gives_up_late=3.0, batch_seconds=4.0, total_batches=30)
    result = run(world, outage_of(OutageService.MASTER))
    assert result.passed, result.reason
    assert list(world.drivers) == ["d1", "d2"]


@pytest.mark.parametrize("batches", [1, 2, 5])
def test_a_driver_that_its_master_forgot_fails_some_batches_later_and_is_started_again(batches: int) -> None:
    """Its executors are ended some seconds after the master is back: before, in or after the steady state."""
    world = World(outage_has_effect=False, fails_after_return=batches, total_batches=30)
    result = run(world, outage_of(OutageService.MASTER))
    assert result.passed, result.reason
    assert list(world.drivers) == ["d1", "d2"]
    assert result.facts["recovery"]["driver_id"] == "d1", "the stream was back before it failed"
    kinds = [entry.kind for entry in world.journals.entries(result.run_id)]
    assert kinds.count("driver_ended") == 2
    assert kinds.count("driver_started") == 2


def test_a_driver_that_fails_for_good_after_the_return_deviates() -> None:
    world = World(outage_has_effect=False, fails_after_return=2, failure_is_curable=False, total_batches=30)
    result = run(world, outage_of(OutageService.MASTER))
    assert result.deviated, result.reason
    assert list(world.drivers) == ["d1"]


def test_the_driver_that_follows_must_not_fail_too() -> None:
    world = World(outage_has_effect=False, fails_after_return=2, exit_after={2: ExitKind.FAILED}, total_batches=30)
    result = run(world, outage_of(OutageService.MASTER))
    assert result.deviated, result.reason
    assert list(world.drivers) == ["d1", "d2"]


def test_a_batch_hangs_without_workers() -> None:
    result = run(World(), outage_of(OutageService.WORKER))
    assert result.passed, result.reason
    assert "hung" in result.facts["fault"]["message"]


@pytest.mark.parametrize("service", [OutageService.MASTER, OutageService.WORKER])
def test_a_stream_without_a_standalone_cluster_has_neither_master_nor_worker(service: OutageService) -> None:
    world = World(master="local[2]")
    result = run(world, outage_of(service))
    assert result.status is DrillStatus.ABORTED
    assert "flights runs on the master local[2], not on a standalone cluster" in result.reason
    assert not world.drivers


def test_a_full_disk_ends_the_driver_and_a_restart_cures_it() -> None:
    world = World(patience=5.0)
    result = run(world, outage_of(OutageService.DISK))
    assert result.passed, result.reason
    assert list(world.drivers) == ["d1", "d2"]


def test_a_disk_that_is_never_full_is_a_miss() -> None:
    result = run(World(outage_has_effect=False, total_batches=40), outage_of(OutageService.DISK), attempts=1)
    assert result.status is DrillStatus.FAILED
    assert "but no batch waited for it: batch 39 was committed" in result.reason
