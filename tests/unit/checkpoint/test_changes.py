"""Changelogs and deltas that real Sparks wrote: where their records end, and how large the rows are."""

import struct
from collections.abc import Callable, Iterator
from itertools import repeat
from pathlib import Path

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.formats.changes import RowSizes, ends, plain_bytes, sample_rows
from streamwarden.checkpoint.formats.layout import Damaged
from streamwarden.checkpoint.formats.lz4_stream import blocks
from streamwarden.services.analysis.tuning import state_files
from support.generated_input import bounded


def change(checkpoint: Path, pattern: str) -> str:
    return str(min(checkpoint.glob(f"state/0/0/{pattern}")))


@pytest.mark.parametrize(
    ("archive", "pattern", "row"),
    [
        ("spark-4.3.0-hdfs", "1.delta", (1, 56, 24)),
        ("spark-3.5.6-hdfs", "1.delta", (1, 56, 24)),
        ("spark-4.3.0-changelog", "1.changelog", (1, 57, 25)),  # a byte before each for the encoding's version
        ("spark-4.3.0-format2", "1_*.changelog", (1, 57, 25)),  # the lineage stands before the rows
    ],
)
def test_a_window_and_its_count_have_the_same_size_in_every_format(
    whole: Callable[[str], Path], archive: str, pattern: str, row: tuple[int, int, int]
) -> None:
    rows, keys, values = row
    assert sample_rows(open_path(change(whole(archive), pattern)), 1) == RowSizes(rows=rows, keys=keys, values=values)


def test_column_families_have_a_byte_for_the_kind_of_each_record(whole: Callable[[str], Path]) -> None:
    found = sample_rows(open_path(change(whole("spark-4.3.0-processor"), "1.changelog")), 1000)
    assert found == RowSizes(rows=18, keys=276, values=92)


def test_a_sample_has_the_requested_number_of_rows(whole: Callable[[str], Path]) -> None:
    path = change(whole("spark-4.3.0-processor"), "1.changelog")
    assert sample_rows(open_path(path), 5).rows == 5


def test_the_plain_size_comes_from_the_heads_of_the_blocks(whole: Callable[[str], Path]) -> None:
    path = change(whole("spark-4.3.0-processor"), "1.changelog")
    assert plain_bytes(open_path(path)) == 724


@pytest.mark.parametrize(
    ("archive", "pattern"),
    [
        ("spark-4.3.0-hdfs", "1.delta"),
        ("spark-4.3.0-changelog", "1.changelog"),
        ("spark-4.3.0-format2", "1_*.changelog"),
        ("spark-4.3.0-processor", "1.changelog"),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 100, 1 << 20])
def test_the_records_end_wherever_the_blocks_do(
    whole: Callable[[str], Path], archive: str, pattern: str, size: int
) -> None:
    with Path(change(whole(archive), pattern)).open("rb") as stream:
        plain = b"".join(blocks(stream))

    def pieces(of: bytes) -> Iterator[bytes]:
        return (of[at : at + size] for at in range(0, len(of), size))

    assert ends(pieces(plain))
    assert not ends(pieces(plain[:-1]))
    assert not ends(pieces(plain[: len(plain) // 2]))


def test_a_length_beyond_the_file_is_skipped_and_not_held() -> None:
    """As in a damaged file: a key of three bytes, and a value of 2 GiB."""
    with bounded():
        assert not ends(iter([struct.pack(">i3si", 3, b"key", (1 << 31) - 1), *repeat(bytes(1 << 20), 1000)]))


def test_a_cut_file_is_damaged(whole: Callable[[str], Path], tmp_path: Path) -> None:
    cut = tmp_path / "1.changelog"
    cut.write_bytes(Path(change(whole("spark-4.3.0-processor"), "1.changelog")).read_bytes()[:-30])
    for read in (lambda: plain_bytes(open_path(cut)), lambda: sample_rows(open_path(cut), 1000)):
        with pytest.raises(Damaged):
            read()


def test_the_state_directory_of_a_checkpoint_is_summed_up(whole: Callable[[str], Path]) -> None:
    found = state_files(open_path(whole("spark-4.3.0-changelog")))
    assert found.bytes == sum(found.by_partition.values()) > 0
    assert found.instances == len(found.snapshots) == len(found.by_partition)
    assert found.rows > 0
    assert all(stored > 0 and plain > 0 for stored, plain in found.changed.values())


def test_store_without_changelogs_yields_no_rows(whole: Callable[[str], Path]) -> None:
    found = state_files(open_path(whole("spark-4.3.0-rocksdb")))
    assert (found.rows, dict(found.changed)) == (0, {})
    assert any(found.snapshots)
