"""The one reader of the file sink's manifest: what Spark reads, and how far one can read past damage."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.formats.sink import SinkManifest, read_sink_manifest


def line(name: str, action: str = "add", **more: object) -> str:
    return json.dumps(
        {"path": f"file:///out/{name}", "size": 7, "isDir": False, "modificationTime": 5, "blockReplication": 1}
        | {"blockSize": 1, "action": action, **more}
    )


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """Batches 0 to 3, of which batch 2 compacts."""
    folder = tmp_path / "_spark_metadata"
    folder.mkdir()
    for name, lines in {
        "0": [line("a%20b")],
        "1": [line("c")],
        "2.compact": [line("a%20b"), line("c"), line("d")],
        "3": [line("e"), line("c", "delete")],
    }.items():
        (folder / name).write_text("\n".join(["v1", *lines]))
    return tmp_path


def read(output: Path, upto: int | None = None, *, past_damage: bool = False) -> SinkManifest:
    manifest = read_sink_manifest(open_path(output), upto, past_damage=past_damage, strict=True)
    assert manifest is not None
    return manifest


def names(manifest: SinkManifest) -> list[str]:
    return [file.path.removeprefix("/out/") for file in manifest.files]


def test_a_folder_without_a_manifest_has_none(tmp_path: Path) -> None:
    assert read_sink_manifest(open_path(tmp_path)) is None


def test_the_files_are_those_of_the_newest_compact_entry_and_of_the_later_ones(output: Path) -> None:
    manifest = read(output)
    assert [entry.name for entry in manifest.entries] == ["2.compact", "3"]
    assert names(manifest) == ["a b", "d", "e"], "decoded, and without what was deleted again"
    assert (manifest.upto, manifest.newest, manifest.missing, manifest.damaged) == (3, 3, (), ())
    assert {(file.size, file.modified_ms) for file in manifest.files} == {(7, 5)}


def test_the_manifest_can_be_read_as_of_an_earlier_batch(output: Path) -> None:
    manifest = read(output, 1)
    assert names(manifest) == ["a b", "c"]
    assert manifest.newest == 3


def test_a_file_that_is_listed_twice_is_there_twice(output: Path) -> None:
    (output / "_spark_metadata/4").write_text("v1\n" + line("e"))
    assert names(read(output)) == ["a b", "d", "e", "e"]


@pytest.mark.parametrize(
    "content",
    ["", "v9", "v1\n{", 'v1\n{"action":"add"}', f"v1\n{line('e')}\n\n{line('f')}", f"v1\n{line('e', path='http://[')}"]
    + [f"v1\n{line('e', **{key: None})}" for key in ("size", "isDir", "modificationTime", "blockSize", "action")]
    + [f"v1\n{line('e', **wrong)}" for wrong in ({"size": True}, {"isDir": 1}, {"blockReplication": "1"})],
)
def test_an_entry_that_spark_cannot_read_is_damaged(output: Path, content: str) -> None:
    (output / "_spark_metadata/3").write_text(content)
    manifest = read(output)
    assert [name for name, _ in manifest.damaged] == ["3"]
    assert names(manifest) == ["a b", "c", "d"]
    assert manifest.missing == ()


def test_past_a_damaged_compact_entry_the_older_entries_still_list_their_files(output: Path) -> None:
    (output / "_spark_metadata/2.compact").write_text("")
    assert names(read(output)) == ["e"], "what Spark would read, if it did not fail"
    manifest = read(output, past_damage=True)
    assert names(manifest) == ["a b", "e"]
    assert manifest.missing == (2,)
    assert [name for name, _ in manifest.damaged] == ["2.compact"]
    (output / "_spark_metadata/0").unlink()
    assert read(output, past_damage=True).missing == (0, 2)
