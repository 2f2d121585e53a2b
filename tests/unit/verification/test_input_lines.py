"""Input files are read as Spark reads them: by their extension, and with any of the three line ends.

tests/spark/jobs/test_flight_departures.py holds the same against Spark's own reader.
"""

import bz2
import gzip
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from streamwarden.errors import VerificationError
from streamwarden.verification.batches import replay_input
from streamwarden.verification.input_lines import lines
from streamwarden.verification.oracle import RunFacts

TEXT = b"one\ntwo\r\nthree\rfour"


@pytest.mark.parametrize(
    ("name", "compress"),
    [
        ("a.json.gz", gzip.compress),
        ("a.json.GZ", gzip.compress),
        ("a.json.gzip", gzip.compress),
        ("a.json.bz2", bz2.compress),
        ("a.json.deflate", zlib.compress),
        ("a.json", bytes),
        ("a.json.xz", bytes),
        ("a.jsongz", bytes),
    ],
)
def test_a_file_is_decompressed_by_its_extension(tmp_path: Path, name: str, compress: Callable[[bytes], bytes]) -> None:
    file = tmp_path / name
    file.write_bytes(compress(TEXT))
    assert list(lines(file)) == ["one", "two", "three", "four"]
    if compress is not bytes:
        file.write_bytes(compress(b"one\n") + compress(b"two\n"))
        assert list(lines(file)) == ["one", "two"]


def test_lines_end_in_any_of_the_three_ways_and_spaces_and_tabs_make_no_record(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(b"\xef\xbb\xbfa\r\rb\n \t\n\r\n\x0b\nc\xff\r")
    assert list(lines(file)) == ["a", "b", "\x0b", "c�"]


@pytest.mark.parametrize("extension", ["zst", "zstd", "lz4", "snappy", "ZST"])
def test_what_only_spark_can_decompress_leaves_no_verdict(tmp_path: Path, extension: str) -> None:
    file = tmp_path / f"a.json.{extension}"
    file.write_bytes(b"")
    with pytest.raises(VerificationError, match=f"compressed as .{extension.lower()}") as error:
        list(lines(file))
    assert error.value.where == str(file)


@pytest.mark.parametrize(
    ("name", "compress"), [("a.gz", gzip.compress), ("a.bz2", bz2.compress), ("a.deflate", zlib.compress)]
)
@pytest.mark.parametrize("kept", [0.5, 0])
def test_a_cut_or_foreign_file_leaves_no_verdict(
    tmp_path: Path, name: str, compress: Callable[[bytes], bytes], kept: float
) -> None:
    whole = compress(TEXT * 100)
    file = tmp_path / name
    file.write_bytes(whole[: int(len(whole) * kept)] if kept else b"no compressed stream at all")
    with pytest.raises(VerificationError, match="an input file cannot be read"):
        list(lines(file))


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        ({"multiLine": "true"}, "multiline = 'true'"),
        ({"lineSep": ";"}, "linesep = ';'"),
        ({"encoding": "UTF-16"}, "encoding = 'UTF-16'"),
        ({"wholetext": "true"}, "wholetext = 'true'"),
    ],
)
def test_a_source_whose_records_are_no_lines_leaves_no_verdict(options: dict[str, str], refused: str) -> None:
    facts = RunFacts(files={}, watermarks={}, committed=None, options=options)
    with pytest.raises(VerificationError, match=f"the source has the option {refused}"):
        replay_input([], facts, decode=str, at=len, delay=None)


def test_options_that_keep_records_lines_are_accepted() -> None:
    harmless = {"multiLine": "false", "encoding": "UTF-8", "maxFileAge": "7d"}
    facts = RunFacts(files={}, watermarks={}, committed=None, options=harmless)
    assert replay_input([], facts, decode=str, at=len, delay=None).problems == ()
