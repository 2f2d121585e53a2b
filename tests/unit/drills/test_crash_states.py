"""The states that a crash can leave, from the record of a run without one."""

from __future__ import annotations

import pytest

from streamwarden.drills.crash_states import (
    Change,
    CrashState,
    Operation,
    Origin,
    crash_states,
    files_of,
    ledger_of,
    windows,
    with_ledger,
)


def renamed(path: str) -> Operation:
    folder, _, name = path.rpartition("/")
    return Operation(path=path, change=Change.RENAMED, content=path, temporary=f"{folder}/.{name}.tmp")


def record(batches: int) -> list[Operation]:
    """Each batch: its plan, a data file that is written under its own name, the manifest, the commit."""
    found = [renamed("checkpoint/metadata")]
    for batch in range(batches):
        found += [
            renamed(f"checkpoint/offsets/{batch}"),
            Operation(path=f"output/part-{batch}", change=Change.WRITTEN, content=f"part-{batch}"),
            renamed(f"output/_spark_metadata/{batch}"),
            renamed(f"checkpoint/commits/{batch}"),
        ]
    return found


RECORD = record(3)


def paths(state: CrashState) -> set[str]:
    return set(files_of(RECORD, state))


def named(part: str) -> CrashState:
    (found,) = [each for each in crash_states(RECORD, [1]) if part in each.name]
    return found


def test_a_batch_has_the_operations_from_the_commit_before_it_to_its_own() -> None:
    assert windows(RECORD) == {0: (0, 5), 1: (5, 9), 2: (9, 13)}


def test_a_kill_leaves_each_prefix_of_a_batch_and_each_file_half_written() -> None:
    states = [each for each in crash_states(RECORD, [1]) if each.origin is Origin.KILL]
    assert len(states) == 8
    assert sorted(each.applied for each in states) == [5, 6, 6, 7, 7, 8, 8, 9]


def test_a_prefix_has_all_files_of_the_batches_before_it() -> None:
    found = paths(named("after 2 of 4"))
    assert {"checkpoint/commits/0", "checkpoint/offsets/1", "output/part-1"} <= found
    assert "output/_spark_metadata/1" not in found


def test_a_file_with_a_temporary_name_is_half_written_under_that_name() -> None:
    state = named("while checkpoint/offsets/1 is written")
    found = files_of(RECORD, state)
    assert "checkpoint/offsets/1" not in found
    assert found["checkpoint/offsets/.1.tmp"] == state.torn


def test_a_file_without_a_temporary_name_is_half_written_under_its_own() -> None:
    state = named("while output/part-1 is written")
    assert files_of(RECORD, state)["output/part-1"] == state.torn


def test_broken_storage_tears_and_loses_each_file_of_the_last_batch_alone() -> None:
    states = [each for each in crash_states(RECORD, [0, 1]) if each.origin is Origin.STORAGE]
    assert {each.batch for each in states} == {1}
    assert len(states) == 8
    lost = named("checkpoint/offsets/1 is lost")
    assert "checkpoint/offsets/1" not in paths(lost)
    assert "checkpoint/commits/1" in paths(lost)
    torn = named("checkpoint/offsets/1 has half")
    assert files_of(RECORD, torn)["checkpoint/offsets/1"] == torn.torn


def test_a_checksum_is_a_state_of_a_kill_and_none_of_broken_storage() -> None:
    states = crash_states([*RECORD[:12], renamed("checkpoint/offsets/.2.crc"), RECORD[12]], [2])
    assert sum(each.origin is Origin.KILL for each in states) == 10
    assert not any(".crc" in each.name for each in states if each.origin is Origin.STORAGE)


def test_a_removed_file_is_not_in_later_states() -> None:
    gone = Operation(path="checkpoint/offsets/0", change=Change.REMOVED)
    state = CrashState(number=0, batch=1, name="", origin=Origin.KILL, applied=6)
    assert "checkpoint/offsets/0" not in files_of([*RECORD[:5], gone, *RECORD[5:]], state)


def test_the_transaction_of_a_batch_comes_directly_before_its_commit() -> None:
    operations = with_ledger(RECORD)
    at = [each.path for each in operations].index("ledger/1")
    assert operations[at + 1].path == "checkpoint/commits/1"
    before = CrashState(number=0, batch=1, name="", origin=Origin.KILL, applied=at)
    after = CrashState(number=0, batch=1, name="", origin=Origin.KILL, applied=at + 1)
    lost = CrashState(number=0, batch=1, name="", origin=Origin.STORAGE, applied=at + 2, without=at)
    assert [ledger_of(operations, each) for each in (before, after, lost)] == [0, 1, 0]
    assert not any(path.startswith("ledger") for path in files_of(operations, after))


def test_without_a_transaction_the_ledger_has_no_batch() -> None:
    state = CrashState(number=0, batch=0, name="", origin=Origin.KILL, applied=2)
    assert ledger_of(with_ledger(RECORD), state) is None


def test_a_batch_that_the_record_lacks_is_refused() -> None:
    with pytest.raises(ValueError, match="no commit of batch 7"):
        crash_states(RECORD, [1, 7])


def test_states_are_numbered_in_order() -> None:
    assert [each.number for each in crash_states(RECORD, [0, 1, 2])] == list(range(34))
