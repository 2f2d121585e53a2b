"""Which input files changed after a query had read them, by the times in the source's log."""

from __future__ import annotations

import pytest

from streamwarden.checkpoint.changed_input import changed_files, describe_changed
from streamwarden.checkpoint.formats.sources import SourceFile

AT = 1_700_000_000_123


def read(*names: str) -> list[SourceFile]:
    return [SourceFile(path=f"file:///in/{name}", timestamp_ms=AT, offset=0) for name in names]


@pytest.mark.parametrize(
    ("now", "within", "changed"),
    [
        (AT, 0, False),
        (AT + 1, 0, True),  # younger: replaced, or appended to
        (AT - 1, 0, True),  # older: replaced by a file that was made before
        (AT + 877, 1000, False),  # a storage that knows whole seconds
        (AT + 2000, 1000, True),
    ],
)
def test_a_file_has_changed_if_its_time_is_another_one(now: int, within: int, changed: bool) -> None:
    found = list(changed_files({3: read("a%20b.json")}, {"/in/a b.json": now}, within=within))
    assert [(file.path, file.batch, file.now_ms) for file in found] == ([("/in/a b.json", 3, now)] if changed else [])


def test_a_file_that_is_gone_has_not_changed() -> None:
    assert list(changed_files({3: read("a.json")}, {})) == []


def test_the_sentence_names_some_files_and_counts_the_others() -> None:
    names = [f"{number}.json" for number in range(5)]
    found = list(changed_files({7: read(*names)}, {f"/in/{name}": AT + 60_000 for name in names}))
    said = describe_changed(found)
    assert said.startswith(
        "input changed after it was read, so that nothing can be proven: 0.json (batch 7 read it as of"
    )
    assert "2023-11-14 22:13:20.123 UTC, it is of 2023-11-14 22:14:20.123 UTC now" in said
    assert said.endswith("and 2 more")
