"""`inspect` ends soon and with little memory, whatever is in the folder: with a report, or with one error."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.diagnosis.report import CheckpointReport, read_checkpoint
from streamwarden.checkpoint.formats.layout import LONGEST, MOST_BATCHES, SMALL
from streamwarden.errors import CheckpointError
from support.checkpoints.recorded import Unpack, remove, rewrite
from support.generated_input import bounded

CHANGELOG = "spark-4.3.0-changelog"
HUGE = SMALL + (4 << 20)
"""Bytes of a log file of a stream that has read or written some 80,000 files: more than a log that is not compacted
may have."""
MEMORY = 3 * HUGE
"""Bytes within which it is read."""
Change = Callable[[Path], object]


def inspect(root: Path) -> CheckpointReport:
    with bounded(memory=MEMORY):
        return read_checkpoint(open_path(root / "checkpoint"), output=open_path(root / "output"))


def add(path: str, content: str = "v1\n{}") -> Change:
    def change(root: Path) -> None:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content)

    return change


def grow(path: str, size: int) -> Change:
    """A file of this size that takes no room on the disk."""

    def change(root: Path) -> None:
        remove(root / path)
        (root / path).touch()
        os.truncate(root / path, size)

    return change


def pipe(path: str) -> Change:
    def change(root: Path) -> None:
        remove(root / path)
        os.mkfifo(root / path)

    return change


def folder(path: str) -> Change:
    def change(root: Path) -> None:
        remove(root / path)
        (root / path).mkdir()

    return change


def edit(path: str, old: str, new: str) -> Change:
    def change(root: Path) -> None:
        text = (root / path).read_text()
        assert old in text
        rewrite(root / path, text.replace(old, new).encode())

    return change


def link(path: str, to: str) -> Change:
    return lambda root: (root / path).symlink_to(to)


DAMAGED: dict[str, Change] = {
    "a date as the offset of a source": add("checkpoint/sources/0/20261122"),
    "a huge compact file of a source": add("checkpoint/sources/0/999999999999999998.compact"),
    "huge offsets": add("checkpoint/offsets/9223372036854775806"),
    "a huge commit": add("checkpoint/commits/20261122"),
    "a huge entry of the manifest": add("output/_spark_metadata/20261122"),
    "a huge compact entry of the manifest": add("output/_spark_metadata/4611686018427387903.compact"),
    "a huge operator": add("checkpoint/state/4000000000/0/1.changelog"),
    "two billion partitions": edit("checkpoint/offsets/13", 'partitions":"2"', 'partitions":"2000000000"'),
    "a huge offset of the source": edit("checkpoint/offsets/13", '"logOffset":12', '"logOffset":9000000000000'),
    "a huge watermark": edit("checkpoint/commits/13", "1356999079000", "9223372036854775807"),
    "large metadata": grow("checkpoint/metadata", 10 * SMALL),
    "large offsets": grow("checkpoint/offsets/13", 10 * SMALL),
    "a large schema": grow("checkpoint/state/0/0/_metadata/schema", 10 * SMALL),
    "a large changelog": grow("checkpoint/state/0/0/14.changelog", 100 * SMALL),
    "a pipe as metadata": pipe("checkpoint/metadata"),
    "a pipe as offsets": pipe("checkpoint/offsets/13"),
    "a pipe as a changelog": pipe("checkpoint/state/0/0/14.changelog"),
    "a pipe as an entry of the manifest": pipe("output/_spark_metadata/12"),
    "a folder as metadata": folder("checkpoint/metadata"),
    "a folder as offsets": folder("checkpoint/offsets/13"),
    "a folder as an entry of the source": folder("checkpoint/sources/0/11"),
    "deep JSON in the offsets": edit("checkpoint/offsets/13", '{"logOffset":12}', "[" * 100_000),
    "nested JSON in the metadata": edit("checkpoint/metadata", '{"id":', '{"a":' * 900),
}
HARMLESS: dict[str, Change] = {
    "a link to itself": link("checkpoint/state/0/0/loop", "loop"),
    "a link to the folder above": link("checkpoint/state/0/0/up", ".."),
    "a link to the checkpoint": link("checkpoint/state/again", ".."),
    "a broken link": link("checkpoint/offsets/14", "nowhere"),
    "a name of other digits": add("checkpoint/state/²/٣/1.changelog"),
    "a batch beyond Java's longs": add("checkpoint/offsets/99999999999999999999"),
    "a name that is not UTF-8": lambda root: Path(root, os.fsdecode(b"checkpoint/state/0/0/\xff")).touch(),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damage_of_any_size_is_a_short_report(name: str, unpack: Unpack, tmp_path: Path) -> None:
    unpack(CHANGELOG, tmp_path)
    DAMAGED[name](tmp_path)
    report = inspect(tmp_path)
    assert report.worst is not None or name == "a huge watermark"
    assert len(report.findings) < 50
    assert len(json.dumps(report.to_dict())) < 100_000


@pytest.mark.parametrize("name", HARMLESS)
def test_what_spark_does_not_read_is_no_finding(name: str, unpack: Unpack, tmp_path: Path) -> None:
    unpack(CHANGELOG, tmp_path)
    HARMLESS[name](tmp_path)
    assert inspect(tmp_path).findings == ()


ENTRIES = [
    f"{log}/{name}" for log in ("checkpoint/sources/0", "output/_spark_metadata") for name in ("9.compact", "11")
]


@pytest.mark.parametrize("path", ENTRIES)
def test_an_entry_that_names_nothing_is_a_damage_whatever_its_size(path: str, unpack: Unpack, tmp_path: Path) -> None:
    unpack(CHANGELOG, tmp_path)
    grow(path, 2 * HUGE)(tmp_path)
    (finding,) = (each for each in inspect(tmp_path).findings if path.endswith(each.path))
    assert finding.consequence.grave
    assert "the first line reads" in finding.what


@pytest.mark.parametrize("path", ENTRIES)
def test_an_entry_of_any_size_is_read_to_its_end(path: str, unpack: Unpack, tmp_path: Path) -> None:
    """Compact or not: one that is whole is no finding, and one whose last line is cut is."""
    unpack(CHANGELOG, tmp_path)
    pad(tmp_path / path)
    assert [each for each in inspect(tmp_path).findings if path.endswith(each.path)] == []
    os.truncate(tmp_path / path, (tmp_path / path).stat().st_size - 4)
    (finding,) = (each for each in inspect(tmp_path).findings if path.endswith(each.path))
    assert "incomplete JSON" in finding.what


def pad(path: Path) -> None:
    """Make a log file longer than `HUGE` bytes: each line more names a file more, and has a key that Spark ignores."""
    text = path.read_text()
    last = text.splitlines()[-1]
    padding = ',"padding":"' + "x" * (LONGEST - 1000) + '"}'
    remove(path)
    with path.open("w") as file:
        file.write(text)
        for at in range(HUGE // len(padding) + 1):
            named = last[:-1].replace("part-", f"part-{at}").replace(".json", f"-{at}.json")
            file.writelines(("\n", named, padding))


NEWEST = MOST_BATCHES + 500


def test_of_a_long_log_the_newest_batches_are_read(unpack: Unpack, tmp_path: Path) -> None:
    unpack(CHANGELOG, tmp_path)
    for log in ("offsets", "commits"):
        shutil.move(tmp_path / "checkpoint" / log, tmp_path / f"old {log}")
        (tmp_path / "checkpoint" / log).mkdir()
        for batch in range(NEWEST + 1):
            os.link(f"{tmp_path}/old {log}/13", f"{tmp_path}/checkpoint/{log}/{batch}")
    report = inspect(tmp_path)
    assert (report.retained, report.position.planned) == ((0, NEWEST), NEWEST)


def test_a_folder_that_cannot_be_listed_is_one_error(unpack: Unpack, tmp_path: Path) -> None:
    unpack(CHANGELOG, tmp_path)
    shutil.rmtree(tmp_path / "checkpoint/state")
    link("checkpoint/state", "state")(tmp_path)
    with pytest.raises(CheckpointError, match="cannot be read"):
        inspect(tmp_path)
