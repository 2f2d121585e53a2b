"""The inspector tells what each kind of stateful operator keeps, store by store and partition by partition."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.diagnosis.damage import Consequence
from streamwarden.checkpoint.diagnosis.report import CheckpointReport, OperatorReport, read_checkpoint
from streamwarden.checkpoint.formats.layout import Damaged
from streamwarden.checkpoint.formats.schemas import state_fields
from support.checkpoints.recorded import Unpack, replace, rewrite

JOIN_STORES = ("left-keyToNumValues", "left-keyWithIndexToValue", "right-keyToNumValues", "right-keyWithIndexToValue")
LEFT = ("id long", "key string", "at timestamp", "matched boolean")
RIGHT = ("other long", "then timestamp", "matched boolean")
PAIRS = {
    "left-keyToNumValues": (("field0 long",), ("value long",)),
    "left-keyWithIndexToValue": (("field0 long", "index long"), LEFT),
    "right-keyToNumValues": (("field0 long",), ("value long",)),
    "right-keyWithIndexToValue": (("field0 long", "index long"), RIGHT),
}


def inspect(unpack: Unpack, name: str, root: Path) -> CheckpointReport:
    return read_checkpoint(open_path(unpack(f"spark-4.3.0-{name}", root)), output=open_path(root / "output"))


def only_operator(unpack: Unpack, name: str, root: Path) -> OperatorReport:
    (operator,) = inspect(unpack, name, root).operators
    return operator


def bytes_on_disk(root: Path, operator: int, partition: int) -> int:
    files = (root / f"checkpoint/state/{operator}/{partition}").rglob("*")
    return sum(path.stat().st_size for path in files if path.is_file() and not path.name.startswith("."))


@pytest.mark.parametrize("name", ["join", "join-columns", "processor", "sessions", "changelog", "hdfs"])
def test_bytes_are_those_of_each_partition_s_folder(name: str, unpack: Unpack, tmp_path: Path) -> None:
    for operator in inspect(unpack, name, tmp_path).operators:
        on_disk = {partition: bytes_on_disk(tmp_path, operator.operator, partition) for partition in (0, 1)}
        assert operator.bytes_by_partition == on_disk
        assert operator.bytes == sum(on_disk.values()) > 0
        assert operator.partitions == 2


def test_a_join_keeps_four_stores_in_each_partition(unpack: Unpack, tmp_path: Path) -> None:
    report = inspect(unpack, "join", tmp_path)
    (operator,) = report.operators
    assert (operator.name, operator.stores) == ("symmetricHashJoin", JOIN_STORES)
    assert [(each.partition, each.store) for each in report.stores] == [(p, s) for p in (0, 1) for s in JOIN_STORES]
    assert {each.replay.newest for each in report.stores} == {6}, "the state after batch 5"
    assert {schema.store: (f.key, f.value) for schema in operator.schemas for f in schema.families} == PAIRS
    assert {schema.version for schema in operator.schemas} == {2}
    assert all(len(batch.sources) == 2 for batch in report.batches), "it reads two sources"


def test_a_join_of_format_3_keeps_column_families_of_one_store(unpack: Unpack, tmp_path: Path) -> None:
    operator = only_operator(unpack, "join-columns", tmp_path)
    assert (operator.name, operator.stores) == ("symmetricHashJoin", ("default",))
    (schema,) = operator.schemas
    assert (schema.store, schema.version) == ("default", 3)
    assert schema.path.startswith("state/0/_stateSchema/default/0_")
    assert {family.name: (family.key, family.value) for family in schema.families} == PAIRS


def test_a_processors_variables_have_their_kinds(unpack: Unpack, tmp_path: Path) -> None:
    report = inspect(unpack, "processor", tmp_path)
    (operator,) = report.operators
    assert (operator.name, operator.stores) == ("transformWithStateInPySparkExec", ("default",))
    assert report.formats["state/0/_metadata"] == "v2"
    (schema,) = operator.schemas
    kinds = {family.name: family.kind for family in schema.families}
    assert kinds == {
        "count": "ValueState, expires",
        "ids": "ListState",
        "seconds": "MapState",
        "$procTimers_keyToTimestamp": "TimerState",
        "$procTimers_timestampToKey": None,
        "$rowCounter_ids": None,
        "$ttl_count": None,
    }
    seconds = next(family for family in schema.families if family.name == "seconds")
    assert seconds.key == ("key struct<key: string>", "userKey struct<second: long>")
    assert seconds.value == ("n long",)


def test_consecutive_operators_are_distinguished(unpack: Unpack, tmp_path: Path) -> None:
    operators = inspect(unpack, "sessions", tmp_path).operators
    assert [(each.operator, each.name) for each in operators] == [
        (0, "sessionWindowStateStoreSaveExec"),
        (1, "dedupeWithinWatermark"),
    ]
    assert [family.value for each in operators for s in each.schemas for family in s.families][1] == (
        "expiresAtMicros long",
    )


def test_the_schema_of_an_aggregation_names_its_fields(unpack: Unpack, tmp_path: Path) -> None:
    (schema,) = only_operator(unpack, "changelog", tmp_path).schemas
    (family,) = schema.families
    assert family.key == ("window struct<start: timestamp, end: timestamp>", "key string")
    assert family.value == ("count long", "sum long")


@pytest.mark.parametrize("lost", ["left-keyToNumValues", "right-keyWithIndexToValue"])
def test_a_store_of_a_join_that_lost_a_changelog_is_named(lost: str, unpack: Unpack, tmp_path: Path) -> None:
    unpack("spark-4.3.0-join", tmp_path)
    folder = tmp_path / f"checkpoint/state/0/1/{lost}"
    for each in (*folder.glob("*.zip"), folder / "4.changelog"):
        each.unlink()
    findings = read_checkpoint(open_path(tmp_path / "checkpoint")).findings
    assert [(each.path, each.consequence) for each in findings] == [
        (f"state/0/1/{lost}/4.changelog", Consequence.REFUSES)
    ]


@pytest.mark.parametrize("partitions", ["0", "*"])
def test_a_store_of_a_join_that_is_gone_is_named(partitions: str, unpack: Unpack, tmp_path: Path) -> None:
    """The operator's metadata names the stores; without it, what other partitions have."""
    unpack("spark-4.3.0-join", tmp_path)
    for folder in (tmp_path / "checkpoint/state/0").glob(f"{partitions}/left-keyToNumValues"):
        shutil.rmtree(folder)
    findings = read_checkpoint(open_path(tmp_path / "checkpoint")).findings
    named = [f"state/0/{each}/left-keyToNumValues" for each in ((0, 1) if partitions == "*" else (0,))]
    assert [(each.path, each.consequence) for each in findings] == [(each, Consequence.REFUSES) for each in named]


def test_the_last_operator_is_missed_where_the_commit_names_it(unpack: Unpack, tmp_path: Path) -> None:
    """In checkpoint format 2 the commit has the state ids of each operator."""
    unpack("spark-4.3.0-format2", tmp_path)
    commit = max((tmp_path / "checkpoint/commits").glob("[0-9]*"), key=lambda path: int(path.name))
    head, _, body = commit.read_text().partition("\n")
    ids = json.loads(body)
    ids["stateUniqueIds"]["1"] = ids["stateUniqueIds"]["0"]
    rewrite(commit, f"{head}\n{json.dumps(ids)}".encode())
    (finding,) = read_checkpoint(open_path(tmp_path / "checkpoint")).findings
    assert (finding.path, finding.consequence) == ("state/1", Consequence.REFUSES)


@pytest.mark.parametrize("name", ["join-columns", "processor"])
def test_a_schema_of_format_3_that_is_cut_off_is_a_finding(name: str, unpack: Unpack, tmp_path: Path) -> None:
    unpack(f"spark-4.3.0-{name}", tmp_path)
    (schema,) = (tmp_path / "checkpoint/state/0/_stateSchema/default").glob("[0-9]*")
    replace(schema, schema.read_bytes()[:-10])
    report = read_checkpoint(open_path(tmp_path / "checkpoint"))
    assert [(each.path.rpartition("/")[0], each.consequence) for each in report.findings] == [
        ("state/0/_stateSchema/default", Consequence.REFUSES)
    ]
    assert report.operators[0].schemas == ()


def test_the_schema_that_the_metadata_names_counts(unpack: Unpack, tmp_path: Path) -> None:
    """A failed start may leave a newer schema file that no metadata names."""
    unpack("spark-4.3.0-processor", tmp_path)
    (schema,) = (tmp_path / "checkpoint/state/0/_stateSchema/default").glob("[0-9]*")
    schema.with_name("9_00000000-0000-4000-8000-000000000000").write_bytes(b"")
    report = read_checkpoint(open_path(tmp_path / "checkpoint"))
    assert report.findings == ()
    assert report.operators[0].schemas[0].path.endswith(schema.name)


@pytest.mark.parametrize("name", ["join-columns", "processor"])
def test_an_operator_with_column_families_cannot_do_without_its_metadata(
    name: str, unpack: Unpack, tmp_path: Path
) -> None:
    """Spark writes lost metadata of other operators again; these operators find their schema through it."""
    unpack(f"spark-4.3.0-{name}", tmp_path)
    shutil.rmtree(tmp_path / "checkpoint/state/0/_metadata")
    (finding,) = read_checkpoint(open_path(tmp_path / "checkpoint")).findings
    assert (finding.path, finding.consequence) == ("state/0/_metadata", Consequence.REFUSES)
    assert finding.error_class == "STDS_FAILED_TO_READ_OPERATOR_METADATA"


def test_metadata_of_column_families_that_is_cut_off_is_refused(unpack: Unpack, tmp_path: Path) -> None:
    unpack("spark-4.3.0-join-columns", tmp_path)
    metadata = tmp_path / "checkpoint/state/0/_metadata/v2/0"
    replace(metadata, metadata.read_bytes()[:-20])
    (finding,) = read_checkpoint(open_path(tmp_path / "checkpoint")).findings
    assert (finding.path, finding.consequence) == ("state/0/_metadata/v2/0", Consequence.REFUSES)


@pytest.mark.parametrize(
    ("name", "consequence"), [("join-columns", Consequence.RECOVERS), ("processor", Consequence.REFUSES)]
)
def test_only_a_processor_needs_its_schema_file(
    name: str, consequence: Consequence, unpack: Unpack, tmp_path: Path
) -> None:
    unpack(f"spark-4.3.0-{name}", tmp_path)
    (schema,) = (tmp_path / "checkpoint/state/0/_stateSchema/default").glob("[0-9]*")
    schema.unlink()
    (finding,) = read_checkpoint(open_path(tmp_path / "checkpoint")).findings
    assert (finding.path, finding.consequence) == (f"state/0/_stateSchema/default/{schema.name}", consequence)


def test_older_metadata_of_a_processor_stands_in_for_the_newest(unpack: Unpack, tmp_path: Path) -> None:
    unpack("spark-4.3.0-processor", tmp_path)
    (tmp_path / "checkpoint/state/0/_metadata/v2/4").unlink()
    report = read_checkpoint(open_path(tmp_path / "checkpoint"))
    assert report.findings == ()
    assert report.operators[0].name == "transformWithStateInPySparkExec"


def test_the_fields_of_the_state_have_the_batch_that_added_them(unpack: Unpack, tmp_path: Path) -> None:
    """Of schemas with a history; a file that cannot be understood is not passed over."""
    checkpoint = unpack("spark-4.3.0-processor", tmp_path)
    (fields,) = state_fields(open_path(checkpoint)).items()
    assert fields[0] == 0
    assert {"seconds"} <= {name.partition(".")[0] for name in fields[1]}
    assert state_fields(open_path(unpack("spark-4.3.0-rocksdb", tmp_path / "other"))) == {}
    (file,) = [path for path in (checkpoint / "state/0/_stateSchema/default").iterdir() if path.name.startswith("0_")]
    rewrite(file, file.read_bytes()[:-9])
    with pytest.raises(Damaged, match="it is cut off"):
        state_fields(open_path(checkpoint))


def test_a_renumbered_operator_is_a_missing_folder_and_not_the_metadata_of_another(
    unpack: Unpack, tmp_path: Path
) -> None:
    """Spark fails with the missing folder, before it compares the operators."""
    checkpoint = unpack("spark-4.3.0-changelog", tmp_path)
    (checkpoint / "state/0").rename(checkpoint / "state/1")
    findings = read_checkpoint(open_path(checkpoint)).findings
    assert {each.error_class for each in findings} == {"CANNOT_LOAD_STATE_STORE.CANNOT_READ_STREAMING_STATE_FILE"}
