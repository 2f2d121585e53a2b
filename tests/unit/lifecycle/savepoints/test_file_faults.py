"""What is said of each file of a savepoint that is not as it was saved."""

import pytest

from streamwarden.lifecycle.savepoints.savepoint import (
    CLAIM,
    MANIFEST,
    SavedFile,
    began_at,
    is_id,
    is_own,
    savepoint_id,
    use_name,
)
from streamwarden.lifecycle.savepoints.verification import Fault, file_faults

SAVED = (SavedFile(path="a/1", size=3, sha256="of a"), SavedFile(path="b", size=4, sha256="of b"))
DIGESTS = {"a/1": "of a", "b": "of b"}


@pytest.mark.parametrize(
    ("there", "digests", "expected"),
    [
        ({"a/1": 3, "b": 4}, {}, []),
        ({"a/1": 3, "b": 4, MANIFEST: 9, CLAIM: 9}, {}, []),
        ({"b": 4}, {}, [("a/1", Fault.MISSING)]),
        ({"a/1": 3, "b": 4, "c": 1}, {}, [("c", Fault.EXTRA)]),
        ({"a/1": 3, "b": 5}, {}, [("b", Fault.SIZE)]),
        ({"a/1": 3, "b": 4}, {"b": "another"}, [("b", Fault.DIGEST)]),
        ({"b": 5, "c": 1}, {}, [("a/1", Fault.MISSING), ("b", Fault.SIZE), ("c", Fault.EXTRA)]),
        ({}, {}, [("a/1", Fault.MISSING), ("b", Fault.MISSING)]),
    ],
)
def test_each_file_has_its_fault(
    there: dict[str, int], digests: dict[str, str], expected: list[tuple[str, Fault]]
) -> None:
    found = file_faults(SAVED, there, {**DIGESTS, **digests}.__getitem__)
    assert [(fault.path, fault.fault) for fault in found] == expected


def test_a_file_that_the_storage_does_not_give_is_not_said_to_be_right() -> None:
    def refused(path: str) -> str:
        raise PermissionError(13, "Permission denied", path)

    faults = list(file_faults(SAVED, {"a/1": 3, "b": 4}, refused))
    assert [fault.fault for fault in faults] == [Fault.UNREADABLE] * 2
    assert faults[0].observed == "Permission denied"


def test_a_file_of_another_size_is_not_read() -> None:
    assert [fault.fault for fault in file_faults(SAVED[:1], {"a/1": 9}, {}.__getitem__)] == [Fault.SIZE]


def test_the_name_of_a_savepoint_is_the_second_in_which_it_was_begun() -> None:
    name = savepoint_id(1_764_103_502.9)
    assert name == "20251125T204502Z"
    assert is_id(name)
    assert began_at(name) == 1_764_103_502
    assert savepoint_id(1_764_103_503) > name


@pytest.mark.parametrize("name", ["", "..", "20251125T204502Z/..", "20251125T204502", "20251125T204502Z-b1", "latest"])
def test_no_other_name_reaches_a_path(name: str) -> None:
    assert not is_id(name)


@pytest.mark.parametrize(
    ("path", "own"),
    [
        ("savepoint.json", True),
        ("creating.json", True),
        (use_name("a"), True),
        (f".{use_name('a')}.20233.53610425526633", True),
        (".creating.json.1.2", True),
        (".stray.1.2", False),
        ("checkpoint/.creating.json.1.2", False),
        ("checkpoint/commits/1", False),
    ],
)
def test_what_a_killed_reader_left_is_no_fault_and_anything_else_is_one(path: str, own: bool) -> None:
    assert is_own(path) is own
