"""A query with two sources: each file belongs to one of them, and the slower one holds the watermark."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.errors import VerificationError
from streamwarden.verification.batches import Side, replay_sides
from streamwarden.verification.comparing.starts import Start
from streamwarden.verification.lines import json_object
from streamwarden.verification.oracle import RunFacts

MINUTE = 60_000


def minute(line: str) -> int | None:
    value = json_object(line)
    return None if value is None else int(str(value["minute"])) * MINUTE


SIDES = {
    "left": Side(decode=minute, at=lambda row: row, delay=10 * MINUTE),
    "right": Side(decode=minute, at=lambda row: row, delay=0),
}
READ = {0: ["left/a"], 1: ["left/b", "right/c"], 2: ["right/d"], 3: []}
MINUTES = {"left/a": [30], "left/b": [50, 20], "right/c": [15], "right/d": [100]}
MARKS = {0: 0, 1: 0, 2: 15 * MINUTE, 3: 40 * MINUTE}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    for name, minutes in MINUTES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("".join(json.dumps({"minute": each}) + "\n" for each in minutes))
    return {name: tmp_path / name for name in MINUTES}


@pytest.fixture
def facts(files: dict[str, Path]) -> RunFacts:
    read = {batch: [files[name] for name in names] for batch, names in READ.items()}
    return RunFacts(files=read, watermarks=MARKS, committed=3)


def test_the_watermark_is_the_lesser_one_and_0_until_both_sides_have_had_an_event(
    files: dict[str, Path], facts: RunFacts
) -> None:
    run = replay_sides(list(files.values()), facts, SIDES)
    assert run.marks == MARKS
    assert run.problems == ()
    assert [sorted(step.rows) for step in run.steps()] == [
        [30 * MINUTE],
        [15 * MINUTE, 20 * MINUTE, 50 * MINUTE],
        [100 * MINUTE],
        [],
    ]


def test_a_watermark_that_one_side_alone_would_make_is_reported(files: dict[str, Path], facts: RunFacts) -> None:
    alone = replace(facts, watermarks={0: 0, 1: 20 * MINUTE, 2: 40 * MINUTE, 3: 40 * MINUTE})
    problems = replay_sides(list(files.values()), alone, SIDES).problems
    assert [problem.split(":")[1] for problem in problems] == [" batch 1", " batch 2"]


RESTARTED = {0: 0, 1: 0, 2: 15 * MINUTE, 3: 15 * MINUTE}


def test_a_watermark_stands_after_a_restart_until_both_sides_have_had_an_event(
    files: dict[str, Path], facts: RunFacts
) -> None:
    """Killed in batch 2, which reads of one side only: the new driver does not know how far the other one was."""
    cut = Start(at=1.0, planned=2, committed=1)
    run = replay_sides(list(files.values()), replace(facts, watermarks=RESTARTED, starts=(cut,)), SIDES)
    assert run.problems == ()
    assert run.marks == RESTARTED


@pytest.mark.parametrize("start", [None, Start(at=1.0, planned=1, committed=0), Start(at=1.0, planned=3, committed=2)])
def test_a_watermark_that_stands_without_a_start_there_is_reported_and_not_believed(
    files: dict[str, Path], facts: RunFacts, start: Start | None
) -> None:
    """The checkpoint of a job that stopped reading looks like this; so does one restarted elsewhere."""
    facts = replace(facts, watermarks=RESTARTED, starts=(start,) if start else ())
    run = replay_sides(list(files.values()), facts, SIDES)
    assert [problem.split(":")[1] for problem in run.problems] == [" batch 3"]
    assert run.marks == MARKS


def test_a_watermark_that_a_start_with_unknown_logs_could_explain_leaves_no_verdict(
    files: dict[str, Path], facts: RunFacts
) -> None:
    """Where the checkpoint agrees with the input nothing depends on that start; no start explains a higher one."""
    unknown = Start(at=1.0, planned=None, committed=None, logs_known=False)
    with pytest.raises(VerificationError, match="watermark that the input does not explain: batch 3"):
        replay_sides(list(files.values()), replace(facts, watermarks=RESTARTED, starts=(unknown,)), SIDES)
    assert replay_sides(list(files.values()), replace(facts, starts=(unknown,)), SIDES).problems == ()
    higher = replace(facts, watermarks={**MARKS, 3: 100 * MINUTE}, starts=(unknown,))
    assert len(replay_sides(list(files.values()), higher, SIDES).problems) == 1


def test_a_restart_explains_no_other_watermark(files: dict[str, Path], facts: RunFacts) -> None:
    """It neither goes back, nor does it stand in the midst of what the sides say, nor beyond it."""
    for wrong in (0, 14, 20, 39, 41, 100):
        logged = {**MARKS, 3: wrong * MINUTE}
        for starts in ((), (Start(at=1.0, planned=2, committed=1),)):
            claimed = replace(facts, watermarks=logged, starts=starts)
            problems = replay_sides(list(files.values()), claimed, SIDES).problems
            assert [problem.split(":")[1] for problem in problems] == [" batch 3"], wrong


def test_a_file_of_no_side_leaves_no_verdict(files: dict[str, Path], facts: RunFacts, tmp_path: Path) -> None:
    (tmp_path / "middle").mkdir()
    stray = tmp_path / "middle" / "e"
    stray.write_text("")
    with pytest.raises(VerificationError, match="belongs to no source"):
        replay_sides([*files.values(), stray], facts, SIDES)
