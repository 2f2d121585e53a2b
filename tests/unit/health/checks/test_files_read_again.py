"""Batches in which Spark read files more than once, because it takes the name of a file for a pattern."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.formats.uris import to_uri
from streamwarden.checkpoint.pattern_names import FilesReadAgain, ReadAgain, files_read_again, read_again
from streamwarden.health.checks.input import files_read_again as files_read_again_check
from streamwarden.health.verdict import Status, Verdict
from streamwarden.progress import Progress
from support.streams.health_windows import judge, log, report, window

ODD = ReadAgain(source=0, batch=12, name="c[1].json", patterns=1, files=3)


def checkpoint(root: Path, *batches: tuple[str, ...], compact: int | None = None) -> FilesReadAgain:
    """What is found in a checkpoint whose batches read these files; up to `compact` only that file has them."""
    entries = []
    for batch, names in enumerate(batches):
        lines = [json.dumps({"path": to_uri(f"/in/{name}"), "timestamp": 1, "batchId": batch}) for name in names]
        entries += lines
        _write(root / "offsets" / str(batch), "{}", json.dumps({"logOffset": batch}))
        if compact is None or batch > compact:
            _write(root / "sources/0" / str(batch), *lines)
        elif batch == compact:
            _write(root / f"sources/0/{batch}.compact", *entries)
    return files_read_again(open_path(root))


def _write(file: Path, *lines: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    head = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": {}})
    shown = [head, *lines[1:]] if file.parent.name == "offsets" else lines
    file.write_text("\n".join(["v1", *shown]))


@pytest.mark.parametrize("name", ["a[1].json", "b*.json", "c?.json", "d{1}.json", "e\\1.json", "day[2]/f.json"])
def test_a_name_that_is_a_pattern_beside_another_file_is_found(tmp_path: Path, name: str) -> None:
    found = checkpoint(tmp_path, ("0.json",), ("1.json", name, "2.json"), (name.replace("1", "3"),))
    (again,) = found.found
    assert (again.batch, again.patterns, again.files) == (1, 1, 3)
    assert again.name == name.rpartition("/")[2]
    assert found.files == {0: {0: 1, 1: 3, 2: 1}}
    assert "read 2 of its 3 files more than once" in str(again)


def test_columns_in_subfolders_and_recursive_sources_are_read_once(tmp_path: Path) -> None:
    """As Spark 4.3 was seen to read them. A folder above the source is no column."""
    read = {0: ["file:///in/day=1/a%5B1%5D.json", "file:///in/day=1/b.json"]}
    assert [*read_again(read), *read_again(read, folder="/in"), *read_again(read, recursive=True)] == []
    assert [again.name for again in read_again(read, folder="/in/day=1/")] == ["a[1].json"]
    checkpoint(tmp_path, ("1.json", "a[1].json"))
    assert files_read_again(open_path(tmp_path), ("/in",), lambda: True) == FilesReadAgain()


def test_names_that_are_none_and_a_file_alone_are_read_once(tmp_path: Path) -> None:
    """The negative control: characters that a URI escapes are no patterns."""
    assert checkpoint(tmp_path, ("a b.json", "c%#ü.json", "d+(1).json"), ("e[1].json",)).found == ()


def test_the_log_is_read_to_its_beginning_only_if_its_newest_entries_show_such_a_name(tmp_path: Path) -> None:
    assert checkpoint(tmp_path / "a", ("0", "1[1]"), ("2",), ("3",), compact=1).found == ()
    whole = checkpoint(tmp_path / "b", ("0", "1[1]"), ("2",), ("3[1]",), compact=1)
    assert [again.batch for again in whole.found] == [0]


def test_a_batch_whose_only_entry_is_a_compact_one_is_looked_at(tmp_path: Path) -> None:
    """Of every tenth batch there is no other. The lines of earlier batches in it were looked at when they were new."""
    assert [again.batch for again in checkpoint(tmp_path / "a", ("0",), ("1", "1[1]"), compact=1).found] == [1]
    earlier = checkpoint(tmp_path / "b", ("0", "0[1]"), ("1",), compact=1)
    assert (earlier.found, [*earlier.clean]) == ((), ["0"])


def test_an_entry_without_a_pattern_is_read_once_as_long_as_it_is_the_same_file(tmp_path: Path) -> None:
    clean = checkpoint(tmp_path, ("0",), ("1",)).clean
    entry, later = tmp_path / "sources/0/0", tmp_path / "sources/0/1"
    at = later.stat().st_mtime
    assert clean == {"0": (1, at)}

    _write(entry, *(json.dumps({"path": to_uri(f"/in/{name}"), "timestamp": 1}) for name in ("0", "0[1]")))

    def found() -> list[int]:
        return [again.batch for again in files_read_again(open_path(tmp_path), clean=clean).found]

    assert found() == [], "it was read before"
    os.utime(later, (at + 1, at + 1))
    assert found() == [0], "the newest entry was written again, as by a restore: all of them are read"
    later.unlink()
    assert found() == [0]


def test_while_an_entry_has_a_pattern_each_is_read_again(tmp_path: Path) -> None:
    """The verdict shows the rows of the batch as soon as its report is there."""
    assert checkpoint(tmp_path, ("0",), ("1", "1[1]"), ("2",)).clean == {}


def test_the_log_of_another_kind_of_source_is_none(tmp_path: Path) -> None:
    _write(tmp_path / "sources/0/0", '{"topic[1]":{"0":5}}')
    assert files_read_again(open_path(tmp_path)).found == ()


def verdict(
    found: FilesReadAgain | None,
    *,
    rows: tuple[int, ...] = (),
    before: Verdict | None = None,
    query: str | None = "one",
) -> Verdict:
    """`rows`: of the batches from 10 on."""
    reports = [_report(10 + at, count) for at, count in enumerate(rows)]
    previous = {} if before is None else {before.check: before}
    return judge(
        files_read_again_check.CHECK,
        window(
            reports,
            readings={} if found is None else {files_read_again_check.READ_AGAIN: found},
            log=replace(log(12, 12), query_id=query),
            previous=previous,
        ),
    )


def _report(batch: int, rows: int) -> Progress:
    return replace(report(batch), rows=rows, sources=())


def test_one_such_batch_is_critical_and_is_shown_with_its_rows() -> None:
    assert verdict(FilesReadAgain()).status is Status.OK
    found = FilesReadAgain(found=(ODD,), files={0: {10: 1, 11: 2, 12: 3}})
    one = verdict(found, rows=(1000, 2000, 5000))
    assert one.status is Status.CRITICAL
    assert "batch 12 read 2 of its 3 files more than once: Spark takes the name 'c[1].json' for a pattern" in one.reason
    assert "5,000 rows from 3 files, 1,667 a file, and the batches that read each file once have 1,000" in one.reason
    assert "other names" in one.advice
    assert "rows from" not in verdict(found).reason, "no report of the batch"


def test_doubled_rows_stay_in_the_verdict_when_the_logs_forget_them() -> None:
    """Until the query has another id; a round that could not read the checkpoint forgets nothing."""
    later = replace(ODD, batch=15)
    found = verdict(FilesReadAgain(found=(ODD,), files={0: {}}))
    blind = verdict(None, before=verdict(FilesReadAgain(found=(ODD, later), files={0: {}}), before=found), query=None)
    assert blind.status is Status.UNKNOWN
    forgotten = verdict(FilesReadAgain(), before=blind)
    assert (forgotten.status, forgotten.value) == (Status.CRITICAL, 2)
    assert "2 batches read files more than once; the newest: batch 15" in forgotten.reason
    assert verdict(FilesReadAgain(), before=forgotten, query="two").status is Status.OK
