"""Whatever the files of a checkpoint contain, reading them ends: with a report, or with the one error of the reader."""

from __future__ import annotations

import contextlib
import io
import json
import struct
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from streamwarden.checkpoint import integrity
from streamwarden.checkpoint.diagnosis.report import CheckpointReport, read_checkpoint
from streamwarden.checkpoint.formats import sst, zip_stream
from streamwarden.checkpoint.formats.changes import read_lineage
from streamwarden.checkpoint.formats.layout import Damaged, parse_log_file
from streamwarden.checkpoint.formats.logs import (
    log_position,
    parse_commit,
    parse_offsets,
    parse_query_id,
    require_uuid,
)
from streamwarden.checkpoint.formats.lz4_stream import blocks
from streamwarden.checkpoint.formats.operators import OperatorMetadata, read_operator_metadata
from streamwarden.checkpoint.formats.schemas import StateSchema, parse_schema
from streamwarden.checkpoint.formats.sink import read_sink_manifest
from streamwarden.checkpoint.formats.sources import parse_source_log
from streamwarden.checkpoint.formats.state import state_stores
from streamwarden.checkpoint.offset_texts import describe_offset
from streamwarden.checkpoint.topics import topic_offsets
from streamwarden.errors import CheckpointError
from support.checkpoints.damage_judge import ORIGINS
from support.checkpoints.random_damages import damage, load
from support.generated_input import bounded, generated_input
from support.servers.memory_files import location

NUMBERS = st.one_of(st.integers(), st.sampled_from([0, -1, 2**31, 2**63 - 1, 2**63, 10**30, 20261122]))
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, st.floats(), st.text(max_size=20))
JSON = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)),
    max_leaves=12,
)
VERSIONS = st.sampled_from(["v1", "v2", "v3", "v0", "v99999999999", "v", "", "\0v1", "v+1", "vv", "{}"])


def objects(*keys: str, values: st.SearchStrategy[Any] = JSON) -> st.SearchStrategy[str]:
    """JSON with some of the keys that the parser reads, and values of any type."""
    return st.dictionaries(st.sampled_from(keys), values, max_size=len(keys)).map(json.dumps)


def logs(*keys: str, values: st.SearchStrategy[Any] = JSON) -> st.SearchStrategy[bytes]:
    """A log file: its version and some lines, which may be of any kind, or any bytes."""
    deep = st.integers(1, 100_000).map(lambda depth: "[" * depth)
    line = st.one_of(objects(*keys, values=values), JSON.map(json.dumps), deep, st.text(max_size=30), st.just("-"))
    end = st.sampled_from(["\n", "\r\n", "\r"])
    text = st.builds(lambda first, end, rest: end.join([first, *rest]), VERSIONS, end, st.lists(line, max_size=4))
    return st.one_of(text.map(lambda each: each.encode("utf-8", "surrogatepass")), st.binary(max_size=200))


@generated_input
@given(logs("batchWatermarkMs", "batchTimestampMs", "conf", "logOffset", "topic"))
def test_an_offset_log(content: bytes) -> None:
    with bounded(), contextlib.suppress(Damaged):
        record = parse_offsets(7, parse_log_file(content))
        assert isinstance(record.shuffle_partitions, int | None)
        assert all(isinstance(describe_offset(each), str) for each in record.sources)
        assert all(isinstance(topic_offsets(each), dict | None) for each in record.sources)


@generated_input
@given(logs("nextBatchWatermarkMs", "stateUniqueIds"))
def test_a_commit_log(content: bytes) -> None:
    with bounded(), contextlib.suppress(Damaged):
        assert parse_commit(7, parse_log_file(content)).batch == 7


@generated_input
@given(logs("path", "timestamp", "batchId"))
def test_the_log_of_a_file_source(content: bytes) -> None:
    with bounded(), contextlib.suppress(Damaged):
        assert all(isinstance(each.offset, int) for each in parse_source_log(7, parse_log_file(content).lines))


@generated_input
@given(
    st.one_of(
        objects("id").map(str.encode),
        st.binary(max_size=100),
        st.uuids().map(lambda id: json.dumps({"id": str(id)}).encode()),
    )
)
def test_the_metadata_of_a_query(content: bytes) -> None:
    with bounded(), contextlib.suppress(Damaged):
        query_id = parse_query_id(content)
        require_uuid(query_id)
        assert query_id.count("-") == 4


@generated_input
@given(
    st.dictionaries(
        st.from_regex(r"[0-9]{1,22}(\.compact)?|\.?[0-9]{1,3}(\.compact)?\.crc|[^/\x00]{1,8}", fullmatch=True),
        logs("path", "size", "isDir", "modificationTime", "blockReplication", "blockSize", "action"),
        max_size=4,
    )
)
def test_the_manifest_of_a_sink(files: dict[str, bytes]) -> None:
    tree = {f"output/_spark_metadata/{name.replace('/', '_')}": content for name, content in files.items()}
    with bounded():
        manifest = read_sink_manifest(location(tree, "output"))
        assert manifest is None or manifest.next_compaction > manifest.upto or manifest.upto < 0


@generated_input
@given(logs("operatorInfo", "stateStoreInfo", "operatorPropertiesJson"))
def test_the_metadata_of_an_operator(content: bytes) -> None:
    with bounded(), contextlib.suppress(Damaged):
        found = read_operator_metadata(location({"metadata": content}, ""), 0, "metadata")
        assert isinstance(found, OperatorMetadata)


@generated_input
@given(
    st.lists(st.one_of(st.binary(max_size=30), st.sampled_from([b"\0\2v1", b"\0\2v2", b"\0\2v3", b"\x7f\xff\xff\xff"])))
)
def test_the_schema_of_a_store(parts: list[bytes]) -> None:
    with bounded(), contextlib.suppress(Damaged):
        assert isinstance(parse_schema("default", "schema", b"".join(parts)), StateSchema)


STATE_NAMES = st.one_of(
    st.from_regex(r"[0-9]{1,25}(_[0-9a-f-]{0,40})?\.(zip|snapshot|changelog|delta)", fullmatch=True),
    st.text(min_size=1, max_size=12).map(lambda text: text.replace("/", "_").replace(".", "x")),
    st.sampled_from(["SSTs", "_metadata", "²", "٣", "-1", "007"]),
)


@generated_input
@given(st.lists(st.lists(STATE_NAMES, min_size=1, max_size=5).map("/".join), max_size=8))
def test_the_names_of_state_files(paths: list[str]) -> None:
    tree = {
        f"checkpoint/state/{path}": b"" for path in paths if not any(other.startswith(f"{path}/") for other in paths)
    }
    with bounded():
        stores = state_stores(location(tree, "checkpoint"))
        assert all(store.replay.changelog_bytes >= 0 for store in stores)
        for store in stores:
            assert all(load.version == 10**15 for load in store.loads(10**15))


def lz4_block(token: int, stored: int, plain: int, content: bytes) -> bytes:
    return b"LZ4Block" + struct.pack("<BIII", token, stored, plain, 0) + content


@generated_input
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=60),
            st.builds(
                lz4_block, st.integers(0, 255), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.binary()
            ),
            st.integers(1, 30_000).map(
                lambda size: lz4_block(0x2F, size + 6, 1 << 25, b"\x1fA\1\0" + b"\xff" * size + b"\0\0")
            ),
        )
    ),
    st.sampled_from(["zip", "sst", "lz4"]),
)
def test_the_content_of_state_files(parts: list[bytes], kind: str) -> None:
    content = b"".join(parts)
    where = location({"file": content}, "file")
    with bounded(), contextlib.suppress(Damaged):
        match kind:
            case "zip":
                dict(zip_stream.members(io.BytesIO(content)))
                integrity.snapshot_files(where)
            case "sst":
                sst.check_table(io.BytesIO(content), len(content))
            case _:
                for _ in blocks(io.BytesIO(content)):
                    pass
                read_lineage(where)


@generated_input
@given(st.sampled_from(sorted(ORIGINS)), st.booleans(), st.lists(st.integers(0, 2**32), min_size=1, max_size=6))
def test_a_whole_checkpoint_with_several_damages(archive: str, checksums: bool, seeds: list[int]) -> None:
    tree, _ = load(archive, checksums=checksums)
    for seed in seeds:
        damage(tree, seed)
    with bounded(), contextlib.suppress(CheckpointError):
        report = read_checkpoint(location(tree, "checkpoint"), output=location(tree, "output"))
        assert isinstance(report, CheckpointReport)
        assert json.loads(json.dumps(report.to_dict()))["path"] == report.path
        log_position(location(tree, "checkpoint"))
