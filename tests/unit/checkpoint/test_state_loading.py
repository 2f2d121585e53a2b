"""What the inspector foretells of a store's load, where a real Spark takes too long to be asked each time."""

from __future__ import annotations

import dataclasses
import io
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.diagnosis import loading
from streamwarden.checkpoint.diagnosis.damage import Consequence, Damage
from streamwarden.checkpoint.diagnosis.loading import NO_FILE, UNREADABLE, diagnose_load
from streamwarden.checkpoint.diagnosis.report import read_checkpoint
from streamwarden.checkpoint.formats.changes import read_lineage
from streamwarden.checkpoint.formats.compaction import next_compaction
from streamwarden.checkpoint.formats.layout import Damaged
from streamwarden.checkpoint.formats.lz4_stream import blocks
from streamwarden.checkpoint.formats.state import state_stores
from streamwarden.checkpoint.integrity import check_state_file
from support.checkpoints.large_states import put_rows
from support.checkpoints.recorded import NAMES, Unpack, remove, replace, rewrite

FORMAT2 = "spark-4.3.0-format2"


def outcome(findings: list[Damage] | tuple[Damage, ...]) -> set[tuple[str, Consequence, str | None]]:
    return {(each.path.rpartition("/")[2], each.consequence, each.error_class) for each in findings}


def cut(path: Path) -> None:
    replace(path, path.read_bytes()[:-5])


@pytest.mark.parametrize("name", NAMES)
def test_every_block_that_a_spark_wrote_matches_its_checksum(name: str, whole: Callable[[str], Path]) -> None:
    read = 0
    for path in whole(name).glob("state/**/[0-9]*.*"):
        if path.suffix in (".changelog", ".delta", ".snapshot"):
            with path.open("rb") as stream:
                read += sum(len(block) for block in blocks(stream))
    assert read > 0 or name.endswith("rocksdb"), "only a store of full snapshots has no LZ4 stream"


def test_no_flipped_byte_of_a_changelog_goes_unseen(unpack: Unpack, tmp_path: Path) -> None:
    content = (unpack("spark-4.3.0-changelog", tmp_path) / "state/0/0/14.changelog").read_bytes()
    for position in range(len(content)):
        broken = bytearray(content)
        broken[position] ^= 0x10
        with pytest.raises(Damaged):
            list(blocks(io.BytesIO(bytes(broken))))


def test_inspect_finds_a_flipped_bit_in_a_large_changelog(unpack: Unpack, tmp_path: Path) -> None:
    """Where there is no checksum file, as in an object store."""
    checkpoint = unpack("spark-4.3.0-changelog", tmp_path)
    changelog = checkpoint / "state/0/0/14.changelog"
    content = put_rows(changelog, 2_000)
    assert len(content) > 1 << 20
    assert read_checkpoint(open_path(checkpoint)).findings == ()
    rewrite(changelog, content[: len(content) // 2] + b"?" + content[len(content) // 2 + 1 :])
    (finding,) = read_checkpoint(open_path(checkpoint)).findings
    assert (finding.consequence, finding.error_class) == (Consequence.REFUSES, UNREADABLE)
    assert finding.what.startswith("a block of the LZ4 stream")


def test_snapshots_that_were_written_seconds_apart_are_not_taken_for_exchanged(whole: Callable[[str], Path]) -> None:
    """A zip file states times to two seconds, so that three seconds between two snapshots may be two in the files."""
    checkpoint = open_path(whole("spark-4.3.0-rocksdb"))
    for store in state_stores(checkpoint):
        for file in store.files:
            check_state_file(checkpoint, store, file, "lz4")


def test_a_lineage_begins_with_the_last_snapshot(unpack: Unpack, tmp_path: Path) -> None:
    store = unpack(FORMAT2, tmp_path) / "state/0/0"
    (newest,) = store.glob("5_*.changelog")
    (snapshot,) = store.glob("3_*.zip")
    lineage = read_lineage(open_path(newest))
    assert lineage is not None
    assert sorted(lineage) == [3, 4]
    assert f"3_{lineage[3]}.zip" == snapshot.name
    assert read_lineage(open_path(unpack("spark-4.3.0-changelog", tmp_path / "old") / "state/0/0/1.changelog")) is None


def test_in_format_2_no_changelogs_stand_in_for_a_lost_snapshot(unpack: Unpack, tmp_path: Path) -> None:
    checkpoint = unpack(FORMAT2, tmp_path)
    (snapshot,) = (checkpoint / "state/0/0").glob("3_*.zip")
    snapshot.unlink()
    assert outcome(read_checkpoint(open_path(checkpoint)).findings) == {
        (snapshot.name, Consequence.REFUSES, UNREADABLE)
    }


def test_in_format_2_another_attempt_at_an_older_version_does_not_count(unpack: Unpack, tmp_path: Path) -> None:
    checkpoint = unpack(FORMAT2, tmp_path)
    (changelog,) = (checkpoint / "state/0/0").glob("4_*.changelog")
    shutil.move(changelog, changelog.with_name("4_00000000-0000-4000-8000-000000000000.changelog"))
    assert outcome(read_checkpoint(open_path(checkpoint)).findings) == {("4.changelog", Consequence.REFUSES, NO_FILE)}


@pytest.mark.parametrize(("name", "refused"), [(FORMAT2, True), ("spark-4.3.0-changelog", False)])
def test_format_2_cannot_start_between_the_manifest_and_the_commit(
    name: str, refused: bool, unpack: Unpack, tmp_path: Path
) -> None:
    """The sink skips the batch that it lists, so there are no state ids to commit; format 1 needs none."""
    checkpoint = unpack(name, tmp_path)
    newest = max((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    remove(newest)
    findings = read_checkpoint(open_path(checkpoint), output=open_path(tmp_path / "output")).findings
    assert [each.path for each in findings] == ([f"commits/{newest.name}"] if refused else [])
    assert all("_spark_metadata" in each.next_step for each in findings)
    entry = tmp_path / "output/_spark_metadata" / newest.name
    entry.unlink()
    assert read_checkpoint(open_path(checkpoint), output=open_path(tmp_path / "output")).findings == ()


def test_a_batch_that_the_sink_will_skip_needs_the_state_after_it(unpack: Unpack, tmp_path: Path) -> None:
    checkpoint = unpack("spark-4.3.0-changelog", tmp_path)
    remove(checkpoint / "commits/13")
    (checkpoint / "state/0/0/14.changelog").unlink()
    assert read_checkpoint(open_path(checkpoint)).findings == (), "without the sink, the batch runs again from before"
    assert outcome(read_checkpoint(open_path(checkpoint), output=open_path(tmp_path / "output")).findings) == {
        ("14.changelog", Consequence.REFUSES, NO_FILE)
    }


def test_the_first_bad_change_decides_the_error(unpack: Unpack, tmp_path: Path) -> None:
    checkpoint = unpack("spark-4.3.0-changelog", tmp_path)
    folder = checkpoint / "state/0/0"
    for snapshot in folder.glob("*.zip"):
        snapshot.unlink()
    cut(folder / "3.changelog")
    (folder / "5.changelog").unlink()
    assert outcome(read_checkpoint(open_path(checkpoint)).findings) == {
        ("3.changelog", Consequence.REFUSES, UNREADABLE),
        ("5.changelog", Consequence.REFUSES, UNREADABLE),
    }


def test_a_repair_does_not_reach_further_back_than_spark_replays(
    unpack: Unpack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = unpack("spark-4.3.0-changelog", tmp_path)
    store = state_stores(open_path(checkpoint))[0]
    versions = sorted(store.snapshots, reverse=True)
    cut(checkpoint / f"state/0/0/{versions[0]}.zip")
    distance = 14 - versions[1]
    for limit, consequence in ((distance, Consequence.RECOVERS), (distance - 1, Consequence.REFUSES)):
        monkeypatch.setattr(loading, "MOST_REPLAYED", limit)
        where = dataclasses.replace(open_path(checkpoint), verified=True)
        found = list(diagnose_load(where, store, 14, ids=(), codec="lz4"))
        assert [each.consequence for each in found] == [consequence]


@pytest.mark.parametrize(
    ("compact", "batch", "expected"),
    [
        ((), 0, 9),
        ((), 8, 9),
        ((), 9, 19),
        ((9,), 13, 19),
        ((9, 19), 19, 29),
        ((4,), 6, 9),
        ((2, 5), 5, 8),
        ((29,), 29, 39),
        ((19,), 19, 39),
        ((12,), 12, 25),
    ],
)
def test_the_next_compaction_follows_from_the_last_ones(compact: tuple[int, ...], batch: int, expected: int) -> None:
    assert next_compaction(compact, batch) == expected


def test_a_lost_entry_says_when_the_loss_shows(unpack: Unpack, tmp_path: Path) -> None:
    checkpoint = unpack("spark-4.3.0-changelog", tmp_path)
    (tmp_path / "output/_spark_metadata/11").unlink()
    (finding,) = read_checkpoint(open_path(checkpoint), output=open_path(tmp_path / "output")).findings
    assert "batch 19, the next that compacts the manifest, fails (BATCH_METADATA_NOT_FOUND)" in finding.spark
