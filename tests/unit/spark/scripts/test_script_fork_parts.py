"""The parts of a script's fork that need no Spark: what a batch write is, where a file goes, how captures are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamwarden.spark.driver.foreach_errors import Guarded
from streamwarden.spark.internals.topic_size import client_settings
from streamwarden.spark.scripts.batch_writes import changes_storage, place_of
from streamwarden.spark.scripts.captures import publish
from streamwarden.spark.scripts.fork_reads import changed, limit


@pytest.mark.parametrize(
    "plan",
    ["InsertIntoStatement", "CreateTableAsSelect", "MergeIntoTable", "DropTable", "DeleteFromTable", "CreateView"],
)
def test_writing_statement_is_recognised_by_its_plan(plan: str) -> None:
    assert changes_storage(plan)


@pytest.mark.parametrize(
    "plan", ["Project", "CreateViewCommand", "SetCommand", "CacheTable", "ShowTables", "AddJarsCommand"]
)
def test_a_statement_that_reads_or_concerns_the_session_is_let_through(plan: str) -> None:
    assert not changes_storage(plan)


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/data/out/a", "/fork/w/data/out/a"),
        ("out/a", "/fork/w/out/a"),
        ("file:///data/out", "/fork/w/data/out"),
        ("s3a://lake/out/", "/fork/w/lake/out"),
        ("../../etc/./x", "/fork/w/etc/x"),
    ],
)
def test_a_file_of_the_function_goes_below_the_fork_whatever_its_path(path: str, place: str) -> None:
    assert place_of(Path("/fork/w"), path) == Path(place)


def test_a_batch_that_is_executed_again_replaces_its_capture_and_keeps_the_earlier_one(tmp_path: Path) -> None:
    for text in ("first", "second", "third"):
        part = tmp_path / ".part"
        part.mkdir()
        (part / "rows").write_text(text)
        publish(tmp_path, part, 4)
    assert (tmp_path / "batch_id=4/rows").read_text() == "third"
    assert [(tmp_path / f"_again/batch_id=4.{at}/rows").read_text() for at in (1, 2)] == ["first", "second"]


def test_files_are_cut_into_about_that_many_batches() -> None:
    assert [limit(files, 4) for files in (0, 1, 4, 5, 8, 9)] == [1, 1, 1, 2, 2, 3]


@pytest.mark.parametrize(
    ("format", "options", "changes"),
    [
        ("kafka", {"subscribe": "t"}, {"startingOffsets": "earliest"}),
        ("kafka", {"startingoffsets": "latest"}, {"startingOffsets": "earliest"}),
        ("kafka", {"startingtimestamp": "5"}, {}),
        ("json", {"path": "in"}, {}),
        ("json", {"sourcearchivedir": "old"}, {"cleanSource": "off"}),
    ],
)
def test_a_source_of_a_fork_begins_at_the_beginning_and_moves_nothing(
    format: str, options: dict[str, str | None], changes: dict[str, str]
) -> None:
    assert changed(format, options) == changes


def test_what_the_script_says_to_kafkas_client_is_said_to_it() -> None:
    found = client_settings({"kafka.bootstrap.servers": "b:9092", "kafka.client.id": None, "subscribe": "t"})
    assert found.pop("key.deserializer") == found.pop("value.deserializer")
    assert found == {"bootstrap.servers": "b:9092"}


def test_wrapped_callable_object_keeps_its_own_attributes() -> None:
    """It may have an attribute of the same name as the wrapper's own."""

    class Keep:
        def __init__(self) -> None:
            self._function = None
            self.failure = "its own"
            self.called: list[int] = []

        def __call__(self, frame: object, batch: int) -> None:
            self.called.append(batch)

    keep = Keep()
    guard = Guarded(keep)
    guard(None, 3)
    assert (keep.called, guard.failure) == ([3], None)
