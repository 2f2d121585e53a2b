"""Which states may be rewritten, and what a rewritten one has to be."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from streamwarden.checkpoint.formats.logs import LogPosition, OffsetRecord, with_state_ids
from streamwarden.errors import CheckpointError, ConfigError
from streamwarden.lifecycle.surgery.rewriting import Found, Keys, Part, Rewritten
from streamwarden.lifecycle.surgery.soundness import (
    choose_operator,
    deviations,
    require_between_batches,
    require_exact,
    require_found,
    require_rewritable,
)
from streamwarden.lifecycle.time_travel.answers import Difference
from streamwarden.lifecycle.time_travel.tables import StateTable, TableKind

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
JOIN = "spark.sql.streaming.join.stateFormatVersion"

STORE = StateTable(operator=0, name="transformWithStateExec", kind=TableKind.STORE, variable="default")
VALUE = StateTable(operator=0, name="transformWithStateExec", kind=TableKind.VALUE, variable="count")
OTHER = StateTable(operator=1, name="dedupe", kind=TableKind.STORE, variable="default")
SIDES = [replace(STORE, name="symmetricHashJoin")]

SAME = Difference(
    fields=("key",), rows_before=9, rows_after=9, appeared=0, vanished=0, changed=0, unchanged=9, grew=0, shrank=0
)
ONE_GONE = replace(SAME, vanished=1)
NONE = Found(fields=("key",), keys=0, parts=(), by_store={"default": 0}, sample=())
TIMERS = Part(store="default", family="$procTimers", keys=1, rows=3)
FOUND = replace(NONE, keys=1, parts=(replace(TIMERS, family="count", rows=1), TIMERS), by_store={"default": 1})
DONE = Rewritten(found=FOUND, left=NONE)


def test_the_state_without_the_keys_and_nothing_else() -> None:
    assert FOUND.rows == 4
    assert deviations([(STORE, ONE_GONE), (VALUE, ONE_GONE), (OTHER, SAME)], DONE, 0) == ()
    assert deviations([(STORE, ONE_GONE), (VALUE, replace(SAME, vanished=5))], DONE, 0) == (), "sessions of one key"


@pytest.mark.parametrize(
    ("table", "difference", "said"),
    [
        (STORE, replace(SAME, vanished=2), "operator 0 (transformWithStateExec), default: 0 keys appeared, 2 vanished"),
        (STORE, SAME, "0 vanished"),
        (STORE, replace(ONE_GONE, changed=1), "1 changed"),
        (STORE, replace(ONE_GONE, appeared=1), "1 keys appeared"),
        (VALUE, replace(ONE_GONE, changed=1), "count: 0 keys appeared, 1 vanished, 1 changed"),
        (OTHER, ONE_GONE, "operator 1 (dedupe), default"),
        (OTHER, replace(SAME, changed=1), "1 changed"),
    ],
)
def test_whatever_else_differs_is_named(table: StateTable, difference: Difference, said: str) -> None:
    (wrong,) = deviations([(table, difference)], DONE, 0)
    assert said in wrong
    with pytest.raises(CheckpointError, match="nothing was changed"):
        require_exact([wrong], "/ckpt")


def test_a_timer_that_is_left_is_named() -> None:
    left = replace(NONE, keys=1, parts=(TIMERS,), by_store={"default": 1})
    assert deviations([(STORE, ONE_GONE)], replace(DONE, left=left), 0) == (
        "3 rows of the keys are left in $procTimers of default",
    )


@pytest.mark.parametrize(
    ("conf", "stores", "said"),
    [
        ({PROVIDER: ROCKSDB, JOIN: "4"}, [STORE], None),
        ({PROVIDER: ROCKSDB, JOIN: "3"}, SIDES, None),
        ({PROVIDER: ROCKSDB}, SIDES, None),
        ({PROVIDER: ROCKSDB, JOIN: "4"}, SIDES, "a join in state format 4"),
        ({PROVIDER: HDFS}, [STORE], "it is in HDFSBackedStateStoreProvider"),
        ({}, [STORE], "a state store that the checkpoint does not name"),
    ],
)
def test_what_can_be_rewritten(conf: dict[str, str], stores: list[StateTable], said: str | None) -> None:
    planned = OffsetRecord(batch=3, version=1, watermark_ms=0, timestamp_ms=0, conf=conf)
    if said is None:
        require_rewritable(planned, stores, "/ckpt")
        return
    with pytest.raises(CheckpointError, match=said):
        require_rewritable(planned, stores, "/ckpt")


def test_only_between_two_batches() -> None:
    at = LogPosition(query_id="q", planned=4, planned_at=0.0, committed=4, committed_at=0.0)
    assert require_between_batches(at, "minutes", "/ckpt") == 4
    with pytest.raises(CheckpointError, match="batch 5 is planned and not committed"):
        require_between_batches(replace(at, planned=5), "minutes", "/ckpt")
    with pytest.raises(CheckpointError, match="no batch was committed"):
        require_between_batches(replace(at, committed=None), "minutes", "/ckpt")


def test_the_operator_is_named_if_there_are_several() -> None:
    assert choose_operator([STORE, replace(STORE, variable="other")], None, "minutes").operator == 0
    assert choose_operator([STORE, OTHER], 1, "minutes") == OTHER
    for asked, said in ((None, "several operators"), (2, "no operator 2")):
        with pytest.raises(ConfigError, match=said) as refused:
            choose_operator([STORE, OTHER], asked, "minutes")
        assert refused.value.expected == "one of: --operator 0 (transformWithStateExec); --operator 1 (dedupe)"
    with pytest.raises(CheckpointError, match="no such key"):
        require_found(NONE, "/ckpt")


def test_a_key_in_the_records_is_a_digest() -> None:
    """It is one that a shell computes, whatever the order in which the fields were given."""
    keys = Keys(fields=("origin=EWR", "day=3"))
    text = "flights\nday=3\norigin=EWR"
    assert keys.digest("flights") == f"sha256:{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    assert Keys(fields=("day=3", "origin=EWR")).digest("flights") == keys.digest("flights")
    assert keys.digest("other") != keys.digest("flights") != Keys(where="key.day = 3").digest("flights")


def test_a_commit_names_another_state() -> None:
    text = 'v2\n{"nextBatchWatermarkMs":7,"stateUniqueIds":{"0":[["a"],["b"]]}}'
    assert with_state_ids(text, {"0": [["c"], ["d"]]}) == text.replace('"a"', '"c"').replace('"b"', '"d"')
