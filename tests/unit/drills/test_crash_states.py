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
    assert sum("half its content" in each.name or "lost" in each.name for each in states) == 8
    lost = named("checkpoint/offsets/1 is lost")
    assert "checkpoint/offsets/1" not in paths(lost)
    assert "checkpoint/commits/1" in paths(lost)
    torn = named("checkpoint/offsets/1 has half")
    assert files_of(RECORD, torn)["checkpoint/offsets/1"] == torn.torn


def test_a_checksum_is_a_state_of_a_kill_and_none_of_broken_storage() -> None:
    states = crash_states([*RECORD[:12], renamed("checkpoint/offsets/.2.crc"), RECORD[12]], [2])
    assert sum(each.origin is Origin.KILL for each in states) == 10
    assert not any(".crc" in each.name for each in states if each.origin is Origin.STORAGE)


def ahead(operations: list[Operation], batch: int) -> list[CrashState]:
    return [each for each in crash_states(operations, [batch]) if "stored ahead of" in each.name]


def test_reordered_writes_leave_a_later_file_without_an_earlier_one_and_without_the_rest() -> None:
    (manifest,) = [
        each for each in ahead(RECORD, 1) if "_spark_metadata/1 is stored ahead of output/part-1" in each.name
    ]
    assert manifest.origin is Origin.STORAGE
    found = paths(manifest)
    assert {"checkpoint/offsets/1", "output/_spark_metadata/1", "output/part-0"} <= found
    assert not {"output/part-1", "checkpoint/commits/1"} & found


def test_what_lies_between_two_reordered_files_is_not_there_either() -> None:
    (commit,) = [each for each in ahead(RECORD, 1) if "commits/1 is stored ahead of checkpoint/offsets/1" in each.name]
    found = paths(commit)
    assert "checkpoint/commits/1" in found
    assert not {"checkpoint/offsets/1", "output/part-1", "output/_spark_metadata/1"} & found


def test_each_two_parts_of_the_last_batch_are_reordered_once_by_their_nearest_files() -> None:
    data = [Operation(path=f"output/more-{each}", change=Change.WRITTEN, content="more") for each in range(50)]
    operations = [*RECORD[:11], *data, *RECORD[11:]]
    assert {each.batch for each in crash_states(operations, [1, 2]) if "ahead" in each.name} == {2}
    assert [each.name.replace("checkpoint/", "").replace("output/", "") for each in ahead(operations, 2)] == [
        "part-2 is stored ahead of offsets/2",
        "_spark_metadata/2 is stored ahead of offsets/2",
        "commits/2 is stored ahead of offsets/2",
        "more-0 is stored ahead of part-2",
        "_spark_metadata/2 is stored ahead of more-49",
        "commits/2 is stored ahead of more-49",
    ]


def test_no_state_of_broken_storage_is_made_twice() -> None:
    states = [each for each in crash_states(RECORD, [2]) if each.origin is Origin.STORAGE]
    assert len({(tuple(sorted(files_of(RECORD, each).items())), each.torn) for each in states}) == len(states)


def test_a_removal_and_a_checksum_are_not_stored_ahead_of_a_file() -> None:
    gone = Operation(path="checkpoint/offsets/0", change=Change.REMOVED)
    operations = [*RECORD[:10], gone, renamed("checkpoint/offsets/.2.crc"), *RECORD[10:]]
    assert len(ahead(operations, 2)) == len(ahead(RECORD, 2))
    assert not any(".crc" in each.name or "offsets/0" in each.name for each in ahead(operations, 2))


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
    lost = CrashState(number=0, batch=1, name="", origin=Origin.STORAGE, applied=at + 2, without=(at,))
    assert [ledger_of(operations, each) for each in (before, after, lost)] == [0, 1, 0]
    assert not any(path.startswith("ledger") for path in files_of(operations, after))


def test_without_a_transaction_the_ledger_has_no_batch() -> None:
    state = CrashState(number=0, batch=0, name="", origin=Origin.KILL, applied=2)
    assert ledger_of(with_ledger(RECORD), state) is None


def test_a_batch_that_the_record_lacks_is_refused() -> None:
    with pytest.raises(ValueError, match="no commit of batch 7"):
        crash_states(RECORD, [1, 7])


def test_states_are_numbered_in_order() -> None:
    states = crash_states(RECORD, [0, 1, 2])
    assert [each.number for each in states] == list(range(len(states)))
