"""The names of operators in checkpoints that have none: inferred from what the state keeps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.diagnosis.operator_names import infer_name, single_partition
from streamwarden.checkpoint.diagnosis.report import OperatorReport, read_checkpoint
from streamwarden.checkpoint.formats.schemas import ColumnFamily, StateSchema
from support.checkpoints.recorded import NAMES, Unpack, remove

CHAIN = ["globalLimit", "stateStoreSave", "symmetricHashJoin", "dedupe", "dedupeWithinWatermark"]
"""From the sink towards the sources, as Spark numbers them."""


def operators(whole: Callable[[str], Path], name: str) -> tuple[OperatorReport, ...]:
    return read_checkpoint(open_path(whole(name))).operators


def schema(key: tuple[str, ...], value: tuple[str, ...]) -> StateSchema:
    return StateSchema(
        store="default", path="", version=2, families=(ColumnFamily(name="default", key=key, value=value),)
    )


@pytest.mark.parametrize(("name", "inferred"), [("spark-3.5.6-chain", True), ("spark-4.3.0-chain", False)])
def test_each_operator_of_a_chain_is_named(whole: Callable[[str], Path], name: str, inferred: bool) -> None:
    found = operators(whole, name)
    assert [each.name for each in found] == CHAIN
    assert {each.inferred for each in found} == {inferred}
    assert [each.partitions for each in found] == [1, 2, 2, 2, 2], "a global limit has one partition"


def test_a_single_partition_without_its_schema_is_not_refused(unpack: Unpack, tmp_path: Path) -> None:
    """Spark writes a lost schema again; nothing else says that a global limit has one partition."""
    unpack("spark-3.5.6-chain", tmp_path)
    assert read_checkpoint(open_path(tmp_path / "checkpoint")).findings == ()
    remove(tmp_path / "checkpoint/state/0/0/_metadata/schema")
    assert read_checkpoint(open_path(tmp_path / "checkpoint")).findings == ()


@pytest.mark.parametrize("name", [each for each in NAMES if "-3." not in each and "processor" not in each])
def test_inferred_name_equals_the_one_a_newer_spark_writes(whole: Callable[[str], Path], name: str) -> None:
    for each in operators(whole, name):
        assert not each.inferred
        if all(schema.version < 3 for schema in each.schemas):
            assert infer_name(each.stores, each.schemas) == each.name


@pytest.mark.parametrize(
    "value", [("groupState struct<n: long>", "timeoutTimestamp long"), ("n long", "timeoutTimestamp long")]
)
def test_groups_with_state_keep_a_timeout(value: tuple[str, ...]) -> None:
    assert infer_name(("default",), [schema(("key string",), value)]) == "flatMapGroupsWithState"


def test_without_a_schema_nothing_is_inferred() -> None:
    assert infer_name(("default",), []) is None


@pytest.mark.parametrize(
    ("key", "single"), [((), True), (("key void",), True), (("key string",), False), (("window struct<>",), False)]
)
def test_a_state_without_a_key_is_in_one_partition(key: tuple[str, ...], single: bool) -> None:
    assert single_partition([schema(key, ("count long",))]) is single
    assert not single_partition([])
