"""Damages to real checkpoints: the inspector foretells of each what the fault declares, and the copy brings all
back."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.diagnosis.damage import Consequence, worst
from streamwarden.checkpoint.formats.logs import log_position
from streamwarden.drills.faults.base import ExpectedEnd
from streamwarden.drills.faults.checkpoint_damage import RULES, CheckpointTarget, FileDamage, choose
from streamwarden.drills.records.types import ForkView
from streamwarden.services.drilling.checkpoint import ForkCheckpoint
from streamwarden.services.drilling.ports.checkpoint_files import COPY, ForkCheckpointFiles
from support.checkpoints.recorded import Unpack, stream_of

FILES = ForkCheckpointFiles()


def fork_of(unpack: Unpack, name: str, root: Path) -> ForkView:
    checkpoint = unpack(name, root)
    return ForkView(
        stream="minutes__fork",
        origin="minutes",
        checkpoint=str(checkpoint),
        output=str(root / "output"),
        batch=None,
        unseen=0,
        batches_left=None,
        input_digest="d" * 64,
        spec=stream_of(root, files=17),
    )


def hit(fork: ForkView, target: CheckpointTarget) -> tuple[str, ...]:
    committed = log_position(open_path(fork.checkpoint)).committed
    assert committed is not None
    return choose(target, committed, FILES.stores(fork))


def content(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("pair", sorted(RULES))
def test_inspector_predicts_the_declared_damage(
    pair: tuple[CheckpointTarget, FileDamage], unpack: Unpack, tmp_path: Path
) -> None:
    target, damage = pair
    fork = fork_of(unpack, f"spark-4.3.0-{'hdfs' if target is CheckpointTarget.DELTA else 'changelog'}", tmp_path)
    before = content(Path(fork.checkpoint))
    FILES.keep(fork)
    (path,) = hit(fork, target)
    FILES.damage(fork, (path,), damage)
    harmed = FILES.damaged(fork)
    assert harmed
    assert all(each.path == path or each.path.startswith(f"{path}/") for each in harmed)
    foretold = worst(tuple(FILES.predict(fork)))
    assert RULES[pair].fits(foretold), FILES.predict(fork)
    assert foretold is Consequence.REFUSES or RULES[pair].expected_end is ExpectedEnd.ENDS, foretold
    assert FILES.restore(fork)
    assert content(Path(fork.checkpoint)) == before
    assert not FILES.damaged(fork)
    assert not FILES.restore(fork)
    assert not (tmp_path / COPY).exists()


def test_a_restore_that_was_interrupted_is_completed(unpack: Unpack, tmp_path: Path) -> None:
    fork = fork_of(unpack, "spark-4.3.0-changelog", tmp_path)
    before = content(Path(fork.checkpoint))
    FILES.keep(fork)
    (tmp_path / f"{COPY}.part").mkdir()
    FILES.keep(fork)
    FILES.damage(fork, hit(fork, CheckpointTarget.STATE), FileDamage.LOST)
    (Path(fork.checkpoint) / "metadata").unlink()
    FILES.restore(fork)
    assert content(Path(fork.checkpoint)) == before


def test_a_position_can_be_read_from_each_damaged_checkpoint(unpack: Unpack, tmp_path: Path) -> None:
    """The drill reads it as evidence. Only a lost commit moves it."""
    reader, damaged = ForkCheckpoint(None), 0  # type: ignore[arg-type]
    for number, (target, damage) in enumerate(RULES):
        fork = fork_of(unpack, "spark-4.3.0-changelog", tmp_path / str(number))
        paths, before = hit(fork, target), reader.position(fork)
        if paths:
            FILES.damage(fork, paths, damage)
            damaged += 1
            after = reader.position(fork)
            assert after.planned == before.planned
            moved = (target, damage) == (CheckpointTarget.COMMIT, FileDamage.LOST)
            assert (after.committed != before.committed) is moved
    assert damaged > 5
