"""The process that reads and compares the outputs of a crash matrix: what it answers, also about a table that cannot be
read, and that its end is no answer."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake

from streamwarden.config.stored_spec import spec_to_dict
from streamwarden.drills.crash_states import Ending
from streamwarden.lifecycle import driver_folder as files
from streamwarden.services.crash_matrix.judge import Judge, judge
from streamwarden.sinks.delta.sink import DeltaSink
from streamwarden.stream.spec import StreamSpec

QUERY = "00000001-0000-0000-0000-000000000000"


def append(root: Path, batch: int, *rows: int) -> None:
    written = CommitProperties(app_transactions=[Transaction(app_id=QUERY, version=batch)])
    write_deltalake(str(root / "table"), pa.table({"n": rows}), mode="append", commit_properties=written)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A stream with a table of two batches."""
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "metadata").write_text(json.dumps({"id": QUERY}))
    sink = DeltaSink(path=str(tmp_path / "table"))
    spec = StreamSpec(name="s", job="/j.py", checkpoint=str(tmp_path / "checkpoint"), sink=sink)
    files.write_spec(tmp_path, spec_to_dict(spec))
    append(tmp_path, 0, 1, 2)
    append(tmp_path, 1, 3)
    return tmp_path


@pytest.fixture
def asked(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Judge]:
    monkeypatch.setenv("PYTHONPATH", "/the/environment/of/a/stream")
    with judge(sys.executable, root) as process:
        yield process


def test_it_compares_what_it_read_at_two_times_and_says_what_it_cannot_read(asked: Judge, root: Path) -> None:
    assert asked.read("right", 1) == ""
    assert asked.read("actual", 1) == ""
    assert asked.compare("right", "actual") == (Ending.RIGHT, "3 rows")
    append(root, 2, 3)
    asked.read("actual", 2)
    ending, detail = asked.compare("right", "actual")
    assert ending is Ending.DIFFERENT
    assert "1 duplicated" in detail or "1 unexpected" in detail
    next((root / "table").glob("*.parquet")).unlink()
    asked.read("actual", 2)
    ending, detail = asked.compare("right", "actual")
    assert (ending, "the reader of the output" in detail) == (Ending.REFUSED, True)
    (root / "table" / "_delta_log" / f"{1:020}.json").unlink()
    assert asked.read("actual", 2).startswith("VerificationError: ")


def test_the_end_of_the_process_is_no_answer(root: Path) -> None:
    with judge("/bin/true", root) as process, pytest.raises(RuntimeError, match="has ended"):
        process.read("right", 1)
