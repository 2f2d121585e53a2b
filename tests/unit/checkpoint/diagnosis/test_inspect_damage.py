"""Each damage is a finding that names the file, what Spark will do and the next step; never an error of the inspector.

That Spark really does so is shown by tests/spark/proofs/test_checkpoint_damage.py.
"""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.diagnosis.damage import Consequence, Damage, worst
from streamwarden.checkpoint.diagnosis.report import read_checkpoint
from support.checkpoints.recorded import NAMES, Unpack, remove, replace

Breakage = Callable[[Path], None]
CHANGELOG = "spark-4.3.0-changelog"

LOSES, REFUSES, RECOVERS, HARMLESS = (
    Consequence.LOSES,
    Consequence.REFUSES,
    Consequence.RECOVERS,
    Consequence.HARMLESS,
)


def findings(root: Path) -> tuple[Damage, ...]:
    return read_checkpoint(open_path(root / "checkpoint"), output=open_path(root / "output")).findings


def lose(path: Path) -> None:
    remove(path) if path.is_file() else shutil.rmtree(path)


def halve(path: Path) -> None:
    replace(path, path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    replace(path, b"")


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x40
    replace(path, bytes(content))


def later(path: Path) -> None:
    """As a later Spark might write it."""
    replace(path, b"v9" + path.read_bytes()[2:])


def name(path: Path) -> None:
    """An id that a person made up."""
    replace(path, b'{"id":"flights"}')


def unlink(path: Path) -> None:
    """Remove the file alone: on a local disk its checksum file stays."""
    path.unlink()


CASES: list[tuple[str, Breakage, Consequence | None, str | None]] = [
    ("checkpoint/metadata", lose, REFUSES, "STREAMING_CHECKPOINT_MISSING_METADATA_FILE"),
    ("checkpoint/metadata", empty, REFUSES, None),
    ("checkpoint/metadata", halve, REFUSES, None),
    ("checkpoint/metadata", name, REFUSES, None),
    ("checkpoint/offsets/13", lose, REFUSES, "CONCURRENT_STREAM_LOG_UPDATE"),
    ("checkpoint/offsets/13", halve, REFUSES, None),
    ("checkpoint/offsets/13", later, REFUSES, None),
    ("checkpoint/offsets/5", later, HARMLESS, None),
    ("checkpoint/commits/13", later, REFUSES, None),
    ("checkpoint/sources/0/11", later, REFUSES, None),
    ("output/_spark_metadata/12", later, LOSES, None),
    ("checkpoint/offsets/12", lose, REFUSES, None),
    ("checkpoint/offsets/5", lose, HARMLESS, None),
    ("checkpoint/offsets", lose, REFUSES, None),
    ("checkpoint/commits/13", halve, REFUSES, None),
    ("checkpoint/commits/13", empty, REFUSES, None),
    ("checkpoint/commits/7", lose, HARMLESS, None),
    ("checkpoint/commits/7", halve, HARMLESS, None),
    ("checkpoint/commits", lose, RECOVERS, None),
    ("checkpoint/sources/0/9.compact", lose, REFUSES, None),
    ("checkpoint/sources/0/9.compact", halve, REFUSES, None),
    ("checkpoint/sources/0/11", empty, REFUSES, None),
    ("checkpoint/sources", lose, REFUSES, None),
    ("checkpoint/state", lose, REFUSES, "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY"),
    ("checkpoint/state/0/1", lose, REFUSES, "CANNOT_LOAD_STATE_STORE.CANNOT_READ_STREAMING_STATE_FILE"),
    ("checkpoint/state/0/_metadata", lose, RECOVERS, None),
    ("checkpoint/state/0/_metadata/metadata", halve, RECOVERS, None),
    ("checkpoint/state/0/0/_metadata/schema", halve, REFUSES, None),
    ("output/_spark_metadata/9.compact", lose, LOSES, "BATCH_METADATA_NOT_FOUND"),
    ("output/_spark_metadata/12", lose, LOSES, "BATCH_METADATA_NOT_FOUND"),
    ("output/_spark_metadata/13", lose, LOSES, "BATCH_METADATA_NOT_FOUND"),
    ("output/_spark_metadata/12", empty, LOSES, None),
    ("output/_spark_metadata/12", halve, LOSES, None),
    ("output/_spark_metadata", lose, LOSES, "BATCH_METADATA_NOT_FOUND"),
    # What is not needed to start: superseded by a compact file, or older than the last snapshot.
    ("checkpoint/sources/0/3", lose, None, None),
    ("output/_spark_metadata/3", halve, None, None),
    ("checkpoint/state/0/0/1.changelog", lose, None, None),
    # The newest batch planned and not committed is what every running query looks like.
    ("checkpoint/commits/13", lose, None, None),
    # The newest batch read nothing new: Spark starts, and takes new files for those of this offset.
    ("checkpoint/sources/0/12", lose, LOSES, None),
]


@pytest.mark.parametrize(("name", "damage", "consequence", "error_class"), CASES)
def test_a_damaged_file_is_named_with_its_consequence(
    name: str,
    damage: Breakage,
    consequence: Consequence | None,
    error_class: str | None,
    unpack: Unpack,
    tmp_path: Path,
) -> None:
    unpack(CHANGELOG, tmp_path)
    damage(tmp_path / name)
    found = findings(tmp_path)
    assert worst(found) is consequence, found
    if consequence is not None:
        below = name.removeprefix("checkpoint/").removeprefix("output/")
        named = [each for each in found if each.path.startswith(below.removesuffix(".compact").rstrip("/"))]
        assert named or "9.compact" in name, found
        assert error_class in {each.error_class for each in found}
        assert all(each.spark and each.next_step for each in found)


@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("checkpoint/commits/13", "commits/.13.crc"),
        ("checkpoint/sources/0/12", "sources/0/.12.crc"),
        ("output/_spark_metadata/13", "_spark_metadata/.13.crc"),
    ],
)
def test_a_checksum_file_left_behind_is_in_the_way_of_the_next_batch(
    name: str, left: str, unpack: Unpack, tmp_path: Path
) -> None:
    """Spark cannot put its new file in place and says that several queries use the folder."""
    unpack(CHANGELOG, tmp_path)
    lose(tmp_path / "checkpoint/commits/13")
    if not name.startswith("checkpoint/commits"):
        lose(tmp_path / name)
    (tmp_path / name).with_name(f".{Path(name).name}.crc").write_bytes(b"crc\0")
    assert (left, REFUSES, "remove it") in {
        (each.path, each.consequence, each.next_step) for each in findings(tmp_path)
    }


def test_a_checksum_file_of_an_older_batch_is_not_in_the_way(unpack: Unpack, tmp_path: Path) -> None:
    unpack(CHANGELOG, tmp_path)
    unlink(tmp_path / "checkpoint/commits/7")
    assert [(each.path, each.consequence) for each in findings(tmp_path)] == [("commits/7", HARMLESS)]


@pytest.mark.parametrize("stray", [(14,), (15, 16, 18)])
def test_commits_that_were_never_planned_are_named_with_the_one_cure(
    stray: tuple[int, ...], unpack: Unpack, tmp_path: Path
) -> None:
    unpack(CHANGELOG, tmp_path)
    for batch in stray:
        shutil.copy(tmp_path / "checkpoint/commits/13", tmp_path / f"checkpoint/commits/{batch}")
    found = findings(tmp_path)
    assert [(each.path, each.consequence) for each in found] == [(f"commits/{batch}", REFUSES) for batch in stray]
    assert found[0].next_step == f"remove commits/{stray[0]} and its checksum file commits/.{stray[0]}.crc"
    for batch in stray:
        lose(tmp_path / f"checkpoint/commits/{batch}")
    assert findings(tmp_path) == ()


def test_a_batch_that_left_state_and_lost_its_offsets_is_no_stray_commit(unpack: Unpack, tmp_path: Path) -> None:
    unpack(CHANGELOG, tmp_path)
    lose(tmp_path / "checkpoint/offsets/13")
    (finding,) = findings(tmp_path)
    assert (finding.path, finding.consequence) == ("offsets/13", REFUSES)
    assert "restore" in finding.next_step
    assert "remove" not in finding.next_step


@pytest.mark.parametrize("damage", [empty, halve])
def test_a_broken_entry_of_a_batch_that_is_not_committed_can_be_moved_out(
    damage: Breakage, unpack: Unpack, tmp_path: Path
) -> None:
    """Spark skips the batch, whatever the entry holds; without the entry it runs the batch again."""
    unpack(CHANGELOG, tmp_path)
    lose(tmp_path / "checkpoint/commits/13")
    damage(tmp_path / "output/_spark_metadata/13")
    (finding,) = findings(tmp_path)
    assert (finding.path, finding.consequence) == ("_spark_metadata/13", LOSES)
    assert "the batch then runs again" in finding.next_step
    lose(tmp_path / "output/_spark_metadata/13")
    assert findings(tmp_path) == ()


def test_an_entry_of_a_batch_that_is_not_committed_needs_its_files(unpack: Unpack, tmp_path: Path) -> None:
    unpack(CHANGELOG, tmp_path)
    lose(tmp_path / "checkpoint/commits/13")
    entry = tmp_path / "output/_spark_metadata/13"
    names = [json.loads(line)["path"].rpartition("/")[2] for line in entry.read_text().splitlines()[1:]]
    for name in names:
        (tmp_path / "output" / name).unlink()
    found = findings(tmp_path)
    assert {(each.path, each.consequence) for each in found} == {(name, LOSES) for name in names}
    assert all("the batch then runs again" in each.next_step for each in found)


def data_of(entry: Path) -> list[str]:
    """Names of the files that an entry of the manifest lists."""
    return [json.loads(line)["path"].rpartition("/")[2] for line in entry.read_text().splitlines()[1:]]


def open_compact_entry(root: Path) -> Path:
    """As if the driver had been killed after it wrote 9.compact and before it committed batch 9."""
    lose(root / "checkpoint/commits/9")
    for batch in range(10, 14):
        for log in ("checkpoint/offsets", "checkpoint/commits", "output/_spark_metadata"):
            lose(root / log / str(batch))
    return root / "output/_spark_metadata/9.compact"


@pytest.mark.parametrize("purged", [True, False])
def test_a_file_of_an_earlier_batch_is_not_brought_back_by_the_open_one(
    purged: bool, unpack: Unpack, tmp_path: Path
) -> None:
    """A compact entry repeats what the entries before it list; Spark purges these some time later."""
    unpack(CHANGELOG, tmp_path)
    open_compact_entry(tmp_path)
    (gone, *_) = data_of(tmp_path / "output/_spark_metadata/1")
    (tmp_path / "output" / gone).unlink()
    if purged:
        for batch in range(9):
            lose(tmp_path / f"output/_spark_metadata/{batch}")
    (finding,) = findings(tmp_path)
    assert (finding.path, finding.consequence) == (gone, LOSES)
    assert "move" not in finding.next_step
    assert "restore the file" in finding.next_step
    assert purged or "Spark continues and does not notice" in finding.spark


@pytest.mark.parametrize("purged", [[], [3], list(range(9))])
def test_a_compact_entry_is_moved_out_only_while_it_can_be_written_again(
    purged: list[int], unpack: Unpack, tmp_path: Path
) -> None:
    """Batch 9 writes it from the entries before it, and fails if one of them is gone."""
    unpack(CHANGELOG, tmp_path)
    entry = open_compact_entry(tmp_path)
    earlier = {name for batch in range(9) for name in data_of(tmp_path / f"output/_spark_metadata/{batch}")}
    own = set(data_of(entry)) - earlier
    assert own
    for name in own:
        (tmp_path / "output" / name).unlink()
    for batch in purged:
        lose(tmp_path / f"output/_spark_metadata/{batch}")
    found = findings(tmp_path)
    assert {each.path for each in found} == own
    assert all("Spark considers batch 9 written" in each.spark for each in found)
    advice = "restore the file" if purged else "move _spark_metadata/9.compact"
    assert all(advice in each.next_step for each in found)
    assert all(("move" in each.next_step) is not bool(purged) for each in found)


@pytest.mark.parametrize("purged", [True, False])
def test_a_damaged_compact_entry_loses_every_batch_that_it_repeats(
    purged: bool, unpack: Unpack, tmp_path: Path
) -> None:
    unpack(CHANGELOG, tmp_path)
    halve(open_compact_entry(tmp_path))
    if purged:
        lose(tmp_path / "output/_spark_metadata/8")
    (finding,) = findings(tmp_path)
    assert (finding.path, finding.consequence) == ("_spark_metadata/9.compact", LOSES)
    assert "the rows of every batch up to 9 are missing" in finding.spark
    assert ("the batch then runs again" in finding.next_step) is not purged
    assert ("restore the file" in finding.next_step) is purged


def test_an_open_entry_is_not_moved_out_from_under_later_ones(unpack: Unpack, tmp_path: Path) -> None:
    """Spark skips every batch up to the newest entry, so batch 12 would not run again."""
    unpack(CHANGELOG, tmp_path)
    for name in ("commits/12", "commits/13", "offsets/13"):
        lose(tmp_path / "checkpoint" / name)
    halve(tmp_path / "output/_spark_metadata/12")
    found = {each.path: each.next_step for each in findings(tmp_path)}
    assert set(found) == {"_spark_metadata/12", "_spark_metadata/13"}
    assert "runs again" not in found["_spark_metadata/12"]


@pytest.mark.parametrize("purged", [True, False])
def test_entries_ahead_are_moved_out_only_if_the_manifest_is_whole_without_them(
    purged: bool, unpack: Unpack, tmp_path: Path
) -> None:
    """9.compact is ahead of the checkpoint, and the only list of what batches 0 to 8 wrote once those are purged."""
    unpack(CHANGELOG, tmp_path)
    open_compact_entry(tmp_path)
    for name in ("offsets/9", "offsets/8", "commits/8"):
        lose(tmp_path / "checkpoint" / name)
    if purged:
        for batch in range(8):
            lose(tmp_path / f"output/_spark_metadata/{batch}")
    (ahead,) = (each for each in findings(tmp_path) if "ahead of the checkpoint" in each.what)
    assert "restore the checkpoint" in ahead.next_step
    assert ("move them" in ahead.next_step) is not purged


def test_an_entry_that_is_older_than_its_plan_is_of_another_run(unpack: Unpack, tmp_path: Path) -> None:
    unpack(CHANGELOG, tmp_path)
    entry = tmp_path / "output/_spark_metadata/13"
    long_ago = re.sub(r'"modificationTime":\d+', '"modificationTime":1500000000000', entry.read_text())
    replace(entry, long_ago.encode())
    (finding,) = findings(tmp_path)
    assert (finding.path, finding.consequence) == ("_spark_metadata/13", LOSES)
    assert "before batch 13 was planned" in finding.what


def test_a_new_checkpoint_under_an_old_output_skips_every_batch_that_the_manifest_lists(
    unpack: Unpack, tmp_path: Path
) -> None:
    unpack(CHANGELOG, tmp_path)
    for part in ("offsets", "commits", "sources", "state"):
        shutil.rmtree(tmp_path / "checkpoint" / part)
    (finding,) = findings(tmp_path)
    assert (finding.path, finding.consequence) == ("_spark_metadata/13", LOSES)
    assert "batches 0 to 13" in finding.spark


@pytest.mark.parametrize("partition", [0, 1])
@pytest.mark.parametrize(
    ("name", "error_class"),
    [
        ("spark-3.5.6-hdfs", "CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS"),
        ("spark-3.5.6-rocksdb", "CANNOT_LOAD_STATE_STORE.CANNOT_READ_STREAMING_STATE_FILE"),
        ("spark-4.0.1-changelog", "CANNOT_LOAD_STATE_STORE.CANNOT_READ_STREAMING_STATE_FILE"),
    ],
)
def test_the_offsets_say_how_many_partitions_there_must_be(
    partition: int, name: str, error_class: str, unpack: Unpack, tmp_path: Path
) -> None:
    unpack(name, tmp_path)
    shutil.rmtree(tmp_path / f"checkpoint/state/0/{partition}")
    found = {(each.path, each.consequence, each.error_class) for each in findings(tmp_path)}
    assert (f"state/0/{partition}", REFUSES, error_class) in found


def newest(root: Path, pattern: str) -> Path:
    return max((root / "checkpoint/state/0/0").glob(pattern), key=lambda path: int(path.name.partition(".")[0]))


@pytest.mark.parametrize("damage", [lose, halve, empty, flip])
def test_the_newest_changelog_cannot_be_replaced(damage: Breakage, unpack: Unpack, tmp_path: Path) -> None:
    unpack(CHANGELOG, tmp_path)
    damage(newest(tmp_path, "*.changelog"))
    assert [(each.path, each.consequence) for each in findings(tmp_path)] == [("state/0/0/14.changelog", REFUSES)]


@pytest.mark.parametrize("damage", [halve, empty, flip])
def test_a_broken_snapshot_is_repaired_from_the_changelogs(damage: Breakage, unpack: Unpack, tmp_path: Path) -> None:
    unpack(CHANGELOG, tmp_path)
    snapshot = newest(tmp_path, "*.zip")
    damage(snapshot)
    found = findings(tmp_path)
    assert [(each.path, each.consequence) for each in found] == [(f"state/0/0/{snapshot.name}", RECOVERS)]


@pytest.mark.parametrize("damage", [lose, halve, flip])
def test_a_file_that_a_snapshot_names_is_checked_too(damage: Breakage, unpack: Unpack, tmp_path: Path) -> None:
    unpack("spark-3.5.6-rocksdb", tmp_path)
    for sst in tmp_path.glob("checkpoint/state/0/0/SSTs/*.sst"):
        damage(sst)
    found = findings(tmp_path)
    assert [(each.path, each.consequence) for each in found] == [("state/0/0/4.zip", REFUSES)]
    assert "SSTs/" in found[0].what or "checksum" in found[0].what


def test_without_changelogs_a_lost_snapshot_is_fatal(unpack: Unpack, tmp_path: Path) -> None:
    unpack("spark-4.3.0-rocksdb", tmp_path)
    lose(newest(tmp_path, "*.zip"))
    assert [(each.path, each.error_class) for each in findings(tmp_path)] == [
        ("state/0/0/4.zip", "CANNOT_LOAD_STATE_STORE.CANNOT_READ_STREAMING_STATE_FILE")
    ]


def test_hdfs_state_recovers_from_a_broken_snapshot_and_not_from_a_lost_delta(unpack: Unpack, tmp_path: Path) -> None:
    unpack("spark-3.5.6-hdfs", tmp_path / "old")
    for snapshot in (tmp_path / "old/checkpoint/state/0/1").glob("*.snapshot"):
        lose(snapshot)
    lose(tmp_path / "old/checkpoint/state/0/1/2.delta")
    assert [(each.path, each.error_class) for each in findings(tmp_path / "old")] == [
        ("state/0/1/2.delta", "CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS")
    ]
    unpack("spark-4.3.0-hdfs", tmp_path / "new")
    snapshot = newest(tmp_path / "new", "*.snapshot")
    halve(snapshot)
    assert [(each.path, each.consequence) for each in findings(tmp_path / "new")] == [
        (f"state/0/0/{snapshot.name}", RECOVERS)
    ]


def test_in_format_2_only_the_committed_attempt_at_a_version_counts(unpack: Unpack, tmp_path: Path) -> None:
    """A second attempt at the newest version, left by a batch that was cut, does not stand in for the committed one."""
    unpack("spark-4.3.0-format2", tmp_path)
    committed = max(
        (tmp_path / "checkpoint/state/0/0").glob("*.changelog"), key=lambda path: int(path.name.split("_")[0])
    )
    other = committed.with_name(f"{committed.name.split('_')[0]}_00000000-0000-4000-8000-000000000000.changelog")
    shutil.copy(committed, other)
    assert findings(tmp_path) == ()
    committed.unlink()
    assert worst(findings(tmp_path)) is REFUSES


def test_a_data_file_that_the_manifest_names_is_missed(unpack: Unpack, tmp_path: Path) -> None:
    unpack(CHANGELOG, tmp_path)
    gone = sorted((tmp_path / "output").glob("*.parquet"))[0]
    gone.unlink()
    assert [(each.path, each.consequence) for each in findings(tmp_path)] == [(gone.name, LOSES)]


def test_a_data_file_that_is_not_whole_is_named(unpack: Unpack, tmp_path: Path) -> None:
    unpack(CHANGELOG, tmp_path)
    cut = sorted((tmp_path / "output").glob("*.parquet"))[0]
    halve(cut)
    (finding,) = findings(tmp_path)
    assert (finding.path, finding.consequence) == (cut.name, LOSES)
    assert f"it has {cut.stat().st_size} bytes instead of" in finding.what


@pytest.mark.parametrize("input_there", [True, False])
def test_a_batch_that_runs_again_needs_its_input(input_there: bool, unpack: Unpack, tmp_path: Path) -> None:
    """Batch 12 read the newest file; Spark passes over a file that is gone, and says nothing."""
    unpack(CHANGELOG, tmp_path)
    for name in ("offsets/13", "commits/13", "commits/12"):
        lose(tmp_path / "checkpoint" / name)
    for batch in (12, 13):
        lose(tmp_path / f"output/_spark_metadata/{batch}")
    source = tmp_path / "input/in 012.json"
    source.parent.mkdir()
    if input_there:
        source.write_text("{}")
    assert [(each.path, each.consequence) for each in findings(tmp_path)] == (
        [] if input_there else [(str(source), LOSES)]
    )


def test_logs_that_fell_behind_the_manifest_are_a_silent_loss(unpack: Unpack, tmp_path: Path) -> None:
    """Somebody restored an older offset and commit log over a newer output: the sink will skip what it knows."""
    unpack(CHANGELOG, tmp_path)
    for batch in (12, 13):
        lose(tmp_path / f"checkpoint/offsets/{batch}")
        lose(tmp_path / f"checkpoint/commits/{batch}")
    found = findings(tmp_path)
    assert worst(found) is LOSES
    assert "ahead" in found[0].what
    assert "batches 12 to 13" in found[0].spark
    assert "so batch 14 fails" in found[0].spark


@pytest.mark.parametrize("name", NAMES)
def test_no_damage_makes_the_inspector_fail(name: str, unpack: Unpack, tmp_path: Path) -> None:
    """Ten random files at a time are lost, cut off, emptied or flipped: there is always a report."""
    choose = random.Random(name)
    for round_number in range(4):
        root = tmp_path / str(round_number)
        unpack(name, root)
        files = sorted(path for path in root.rglob("*") if path.is_file())
        for path in choose.sample(files, 10):
            choose.choice([Path.unlink, halve, empty, flip])(path)
        report = read_checkpoint(open_path(root / "checkpoint"), output=open_path(root / "output"))
        assert report.to_dict()["worst"] is None or report.findings
