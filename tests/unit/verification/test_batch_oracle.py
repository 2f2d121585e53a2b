"""The batch oracle: expected rows from the whole input, and every contradiction between input and checkpoint."""

import json
import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from streamwarden.errors import VerificationError
from streamwarden.verification.batch_oracle import WindowedQuestion, answer
from streamwarden.verification.comparing.starts import Start
from streamwarden.verification.lines import json_object
from streamwarden.verification.oracle import RunFacts
from streamwarden.verification.windows import Row, Sliding

MINUTE = 60_000


def decode(line: str) -> Row | None:
    value = json_object(line)
    if value is None or not isinstance(value.get("minute"), int):
        return None
    return Row(int(str(value["minute"])) * MINUTE, (value["airport"],), (1,))


QUESTION = WindowedQuestion(
    decode=decode,
    windows=Sliding(60 * MINUTE, 60 * MINUTE),
    delay=0,
    group_columns=("airport",),
    amount_columns=("flights",),
    count_column="flights",
)


def at(minute: int) -> datetime:
    return datetime.fromtimestamp(minute * 60, tz=UTC)


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Three files of an hour each: two flights, two flights and a broken line, one flight far ahead."""
    lines = (
        [{"minute": 10, "airport": "EWR"}, {"minute": 20, "airport": "EWR"}],
        [{"minute": 70, "airport": "EWR"}, {"minute": 80, "airport": "JFK"}, "broken"],
        [{"minute": 600, "airport": "JFK"}],
    )
    paths = [tmp_path / f"flights-{number}.json" for number in range(3)]
    for path, each in zip(paths, lines, strict=True):
        path.write_text("".join(json.dumps(line) + "\n" for line in each) + "\n")
    return paths


@pytest.fixture
def facts(files: list[Path]) -> RunFacts:
    """A batch a file, then the batch without data that lets the watermark pass."""
    return RunFacts(
        files={batch: [path] for batch, path in enumerate(files)},
        watermarks={0: 0, 1: 20 * MINUTE, 2: 80 * MINUTE, 3: 600 * MINUTE},
        committed=3,
    )


def test_the_expected_rows_are_the_closed_windows(files: list[Path], facts: RunFacts) -> None:
    expectation = answer(QUESTION, files, facts)
    assert expectation.problems == ()
    assert expectation.key_columns == ("window_start", "airport")
    assert expectation.value_columns == ("window_end", "flights")
    assert expectation.rows == {
        (at(0), "EWR"): (at(60), 2),
        (at(60), "EWR"): (at(120), 1),
        (at(60), "JFK"): (at(120), 1),
    }


def test_the_books_say_where_every_record_went(files: list[Path], facts: RunFacts) -> None:
    counts = answer(QUESTION, files, facts).counts
    assert (counts.records, counts.malformed, counts.pairs) == (6, 1, 5)
    assert (counts.emitted, counts.open, counts.dropped) == (4, 1, 0)


def test_a_file_that_no_batch_read_is_reported_and_its_rows_are_still_owed(files: list[Path], facts: RunFacts) -> None:
    lost = replace(facts, files={0: [files[0]], 2: [files[2]]}, watermarks={**facts.watermarks, 2: 20 * MINUTE})
    expectation = answer(QUESTION, files, lost)
    assert expectation.problems == ("input file never read: flights-1.json",)
    assert (at(60), "JFK") in expectation.rows


def test_a_file_that_two_batches_read_is_reported_and_counts_once(files: list[Path], facts: RunFacts) -> None:
    twice = replace(facts, files={**facts.files, 3: [files[0]]})
    expectation = answer(QUESTION, files, twice)
    assert expectation.problems == ("input file read twice: flights-0.json (batches 0 and 3)",)
    assert expectation.rows == answer(QUESTION, files, facts).rows


def test_a_row_from_the_future_is_malformed_where_the_question_says_so(files: list[Path], facts: RunFacts) -> None:
    """The last file was written in minute 80 and has a flight of minute 600."""
    os.utime(files[2], (80 * 60, 80 * 60))
    marks = {**facts.watermarks, 3: 80 * MINUTE}
    expectation = answer(replace(QUESTION, not_after=60 * MINUTE), files, replace(facts, watermarks=marks))
    assert expectation.problems == ()
    assert expectation.counts.malformed == answer(QUESTION, files, facts).counts.malformed + 1


def test_a_file_that_is_in_no_input_is_reported(files: list[Path], facts: RunFacts) -> None:
    foreign = replace(facts, files={**facts.files, 3: [Path("/elsewhere/other.json")]})
    assert answer(QUESTION, files, foreign).problems == ("file read that is not in the input: other.json",)


def test_a_watermark_that_the_input_does_not_explain_is_reported(files: list[Path], facts: RunFacts) -> None:
    wrong = replace(facts, watermarks={**facts.watermarks, 2: 81 * MINUTE})
    expectation = answer(QUESTION, files, wrong)
    assert len(expectation.problems) == 1
    assert "batch 2: 1970-01-01 01:21:00+00:00 in the offset log" in expectation.problems[0]
    assert "1970-01-01 01:20:00+00:00 by the input" in expectation.problems[0]
    assert expectation.rows == answer(QUESTION, files, facts).rows


def test_batch_of_a_file_decides_which_rows_are_late(files: list[Path], facts: RunFacts) -> None:
    """The far flight first: two batches later everything else comes too late."""
    late = RunFacts(
        files={0: [files[2]], 2: [files[0], files[1]]},
        watermarks={0: 0, 1: 600 * MINUTE, 2: 600 * MINUTE},
        committed=2,
    )
    expectation = answer(QUESTION, files, late)
    assert expectation.rows == {}
    assert expectation.counts.dropped == 4
    assert expectation.notes["late_rows"] == 4


def test_offsets_that_were_purged_leave_no_verdict(files: list[Path], facts: RunFacts) -> None:
    purged = replace(facts, watermarks={batch: mark for batch, mark in facts.watermarks.items() if batch > 0})
    with pytest.raises(VerificationError, match="no longer has batch 0") as error:
        answer(QUESTION, files, purged)
    assert "minBatchesToRetain" in str(error.value)


def test_two_input_files_of_one_name_leave_no_verdict(files: list[Path], facts: RunFacts, tmp_path: Path) -> None:
    twin = tmp_path / "sub" / files[0].name
    twin.parent.mkdir()
    twin.write_text("{}\n")
    with pytest.raises(VerificationError, match="have the same name"):
        answer(QUESTION, [*files, twin], facts)


def test_an_input_file_that_is_gone_leaves_no_verdict(files: list[Path], facts: RunFacts) -> None:
    files[1].unlink()
    with pytest.raises(VerificationError, match="cannot be read"):
        answer(QUESTION, files, facts)


def test_a_run_that_committed_nothing_owes_nothing(files: list[Path]) -> None:
    expectation = answer(QUESTION, files, RunFacts(files={}, watermarks={}, committed=None))
    assert expectation.rows == {}
    assert len(expectation.problems) == 3


# What a run that lost its rows writes into its own checkpoint

BLIND = {0: 0, 1: 20 * MINUTE, 2: 20 * MINUTE, 3: 20 * MINUTE}
"""The watermarks of a run that read nothing from batch 1 on."""


@pytest.mark.parametrize("starts", [(), (Start(at=1.0, planned=1, committed=0, sink=0),)])
def test_stalled_watermark_does_not_lower_the_expected_rows(
    files: list[Path], facts: RunFacts, starts: tuple[Start, ...]
) -> None:
    """Not without a start, and not with the start of a driver that read the cut batch again."""
    blind = answer(QUESTION, files, replace(facts, watermarks=BLIND, starts=starts))
    assert blind.rows == answer(QUESTION, files, facts).rows
    assert [problem.partition(":")[0] for problem in blind.problems] == [
        "watermark that the input does not explain",
        "watermark that the input does not explain",
    ]


def test_a_batch_that_was_killed_between_the_manifest_and_its_commit_is_explained(
    files: list[Path], facts: RunFacts
) -> None:
    """Spark does not read it again, so that its events never move the watermark; its rows are owed all the same."""
    killed = Start(at=1.0, planned=1, committed=0, sink=1)
    marks = {0: 0, 1: 20 * MINUTE, 2: 20 * MINUTE, 3: 600 * MINUTE}
    expectation = answer(QUESTION, files, replace(facts, watermarks=marks, starts=(killed,)))
    assert expectation.problems == ()
    assert expectation.rows == answer(QUESTION, files, facts).rows


def test_after_a_rewind_the_rows_of_the_first_time_are_owed_and_not_unexpected(
    files: list[Path], facts: RunFacts
) -> None:
    """Offsets and commits from batch 1 on were removed, the output was kept: Spark planned them again and skipped all,
    and its watermark stood."""
    rewound = Start(at=2.0, planned=0, committed=0, sink=3)
    expectation = answer(QUESTION, files, replace(facts, watermarks=BLIND, starts=(rewound,)))
    assert expectation.rows == answer(QUESTION, files, facts).rows


# The bound that holds for every run which came to its end


def without_its_last_batch(facts: RunFacts) -> RunFacts:
    return replace(facts, watermarks={batch: facts.watermarks[batch] for batch in range(3)}, committed=2, ended=True)


def test_finished_run_owes_the_rows_that_the_last_watermark_passed(files: list[Path], facts: RunFacts) -> None:
    expectation = answer(QUESTION, files, without_its_last_batch(facts))
    assert expectation.rows == answer(QUESTION, files, facts).rows
    assert len(expectation.problems) == 1
    assert "batch 2 moved the watermark to 1970-01-01 10:00:00+00:00, and no batch followed" in expectation.problems[0]


def test_a_run_that_goes_on_owes_no_batch_that_is_yet_to_come(files: list[Path], facts: RunFacts) -> None:
    expectation = answer(QUESTION, files, replace(without_its_last_batch(facts), ended=False))
    assert expectation.problems == ()
    assert (at(60), "EWR") not in expectation.rows


def test_a_driver_that_started_after_the_last_rows_owes_no_batch_without_data(
    files: list[Path], facts: RunFacts
) -> None:
    """Spark asks the batch before whether it moved the watermark, and a new driver has none."""
    late = replace(without_its_last_batch(facts), starts=(Start(at=1.0, planned=2, committed=2, sink=2),))
    assert answer(QUESTION, files, late).problems == ()


def test_a_file_that_no_batch_read_counts_in_the_last_watermark(files: list[Path], facts: RunFacts) -> None:
    """The newest events were never read: what they close is owed."""
    marks = {0: 0, 1: 20 * MINUTE, 2: 80 * MINUTE}
    lost = replace(facts, files={0: [files[0]], 1: [files[1]]}, watermarks=marks, committed=2, ended=True)
    expectation = answer(QUESTION, files, lost)
    assert expectation.rows == answer(QUESTION, files, facts).rows
    assert expectation.problems[0] == "input file never read: flights-2.json"


def test_the_rows_of_a_batch_that_is_said_not_to_be_committed_are_owed(files: list[Path], facts: RunFacts) -> None:
    """A commit log that ends early: read_facts then leaves the later batches out, and their files count as unread."""
    early = replace(facts, files={0: [files[0]]}, watermarks={0: 0}, committed=0, ended=True)
    assert answer(QUESTION, files, early).rows == answer(QUESTION, files, facts).rows
