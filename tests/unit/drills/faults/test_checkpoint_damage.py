"""A damaged checkpoint: what Spark must repair or refuse, what is a miss, and what deviates."""

from __future__ import annotations

import pytest

from streamwarden.checkpoint.diagnosis.damage import Consequence
from streamwarden.drills.faults import FAULTS, ExpectedEnd
from streamwarden.drills.faults.checkpoint_damage import RULES, CheckpointTarget, FileDamage
from streamwarden.drills.records.journal import FORK_STEPS, DrillRun, DrillStatus, DrillStep
from streamwarden.drills.reporting.report import verdict_word
from streamwarden.drills.spec import DrillSpec
from streamwarden.errors import InvalidValue
from support.simulated.drill_specs import drill, fault_of
from support.simulated.drill_world import Killed, World

KIND = "checkpoint_damage"
COMMIT_LOST = (CheckpointTarget.COMMIT, FileDamage.LOST)
CHANGES_CUT = (CheckpointTarget.CHANGELOG, FileDamage.TRUNCATED)
ON_ROCKSDB = sorted(pair for pair in RULES if pair[0] is not CheckpointTarget.DELTA)


def spec(target: CheckpointTarget, damage: FileDamage, **changes: object) -> DrillSpec:
    return drill(KIND, fault=fault_of(KIND, target=target, damage=damage, **changes))  # type: ignore[arg-type]


def run(world: World, pair: tuple[CheckpointTarget, FileDamage], **changes: object) -> DrillRun:
    return world.engine(spec(*pair, **changes)).run(KIND)


@pytest.mark.parametrize("pair", ON_ROCKSDB)
def test_each_damage_has_the_declared_outcome(pair: tuple[CheckpointTarget, FileDamage]) -> None:
    world = World(sink="parquet")
    result = run(world, pair)
    assert result.passed, result.reason
    refused = RULES[pair].expected_end is ExpectedEnd.REFUSES
    assert ("refusal" in result.facts) is refused
    assert world.files.restored == (1 if refused else 0)
    proof = result.facts["fault"]
    assert proof["landed"]
    assert "between two batches the checkpoint was damaged: " in proof["message"]
    assert proof["evidence"]["harmed"]
    assert proof["evidence"]["foretold"] == ("refuses" if refused else None)
    assert len(world.drivers) == (3 if refused else 2)


def test_the_recovery_after_a_lost_commit_is_the_batch_that_runs_again() -> None:
    result = run(World(sink="parquet"), COMMIT_LOST)
    proof, recovery = result.facts["fault"], result.facts["recovery"]
    assert proof["planned"] == proof["committed"] + 1 == recovery["first_new_batch"]
    assert f"commits/{proof['planned']} is gone (86 bytes before)" in proof["message"]


def test_a_stream_that_goes_on_with_a_damaged_state_deviates() -> None:
    world = World(sink="parquet")
    world.files.silent = True
    result = run(world, CHANGES_CUT)
    assert verdict_word(result) == "DEVIATED"
    assert "the stream went on in silence" in result.reason


def test_an_exit_without_the_cause_deviates() -> None:
    world = World(sink="parquet")
    world.files.cause = None
    result = run(world, CHANGES_CUT)
    assert verdict_word(result) == "DEVIATED"
    assert "the driver's exit: it names another cause, or none" in result.reason
    assert "the check restart_loop: it gives " in result.reason


def test_a_check_that_does_not_report_it_deviates() -> None:
    world = World(sink="parquet")
    world.files.reported = False
    result = run(world, CHANGES_CUT)
    assert verdict_word(result) == "DEVIATED"
    assert "the check restart_loop: it is OK" in result.reason


@pytest.mark.parametrize(
    ("pair", "foretold"), [(CHANGES_CUT, Consequence.HARMLESS), (COMMIT_LOST, Consequence.REFUSES)]
)
def test_a_damage_with_another_foretold_outcome_is_undone_and_a_miss(
    pair: tuple[CheckpointTarget, FileDamage], foretold: Consequence
) -> None:
    world = World(sink="parquet", total_batches=40)
    world.files.foretold = foretold
    result = run(world, pair, attempts=2)
    assert result.status is DrillStatus.FAILED
    assert result.deviated is None
    assert f"but `inspect` foretells {foretold}" in result.reason
    assert world.files.restored == 2
    assert len(world.drivers) == 2, "nothing is started on it"


def test_a_damage_without_an_effect_is_a_miss() -> None:
    world = World(sink="parquet", total_batches=40)
    world.files.effect = False
    result = run(world, COMMIT_LOST, attempts=1)
    assert result.status is DrillStatus.FAILED
    assert "every file of the checkpoint is as it was" in result.reason


def test_a_state_without_snapshots_cannot_lose_one() -> None:
    world = World(sink="parquet", total_batches=20)
    world.files.snapshots = False
    result = run(world, (CheckpointTarget.SNAPSHOT, FileDamage.LOST), attempts=1)
    assert result.status is DrillStatus.FAILED
    assert "the driver ended before there was the newest snapshot" in result.reason


def test_a_strike_that_died_after_the_damage_is_undone_and_made_again() -> None:
    world = World(sink="parquet", die_at="after_harm", total_batches=20)
    wanted = spec(*CHANGES_CUT)
    run_id = world.engine(wanted).begin(KIND)
    world.engine(wanted).step(run_id, DrillStep.STEADY_STATE)
    with pytest.raises(Killed):
        world.engine(wanted).step(run_id, DrillStep.FAULT)
    for step in FORK_STEPS[1:]:
        result = world.engine(wanted).step(run_id, step)
    assert result.passed, result.reason
    assert "the checkpoint was restored from its copy" in [entry.message for _, entry in world.journals.lines]
    assert world.files.restored == 2, "by the second try, and as the remediation"


def test_healing_undoes_the_damage() -> None:
    world = World(sink="parquet", die_at="after_harm", total_batches=20)
    wanted = spec(*CHANGES_CUT)
    run_id = world.engine(wanted).begin(KIND)
    world.engine(wanted).step(run_id, DrillStep.STEADY_STATE)
    with pytest.raises(Killed):
        world.engine(wanted).step(run_id, DrillStep.FAULT)
    world.engine(wanted).step(run_id, DrillStep.HEAL)
    assert world.files.broken is None


@pytest.mark.parametrize(
    ("target", "damage", "allowed"),
    [
        (CheckpointTarget.METADATA, FileDamage.FLIPPED, "for metadata: lost"),
        (CheckpointTarget.OFFSETS, FileDamage.LOST, "for offsets: truncated"),
    ],
)
def test_a_pair_without_a_declared_outcome_is_invalid(
    target: CheckpointTarget, damage: FileDamage, allowed: str
) -> None:
    with pytest.raises(InvalidValue, match=allowed):
        spec(target, damage)


def test_a_delta_needs_the_hdfs_backend() -> None:
    world = World(sink="parquet")
    result = run(world, (CheckpointTarget.DELTA, FileDamage.LOST))
    assert result.status is DrillStatus.ABORTED
    assert "the target delta is not applicable: flights has the state backend rocksdb" in result.reason
    assert not world.drivers


def test_the_fault_that_a_file_chooses_declares_its_outcome() -> None:
    for (target, damage), rule in RULES.items():
        chosen = fault_of(KIND, target=target, damage=damage).chosen
        assert chosen.expected_end is rule.expected_end
        assert FAULTS[KIND].variants[f"target: {target}, damage: {damage}"][0] is rule.expected_end
