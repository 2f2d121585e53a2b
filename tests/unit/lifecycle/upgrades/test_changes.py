"""The state of a checkpoint and that of a new version are compared field by field."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from streamwarden.checkpoint.diagnosis.report import CheckpointReport, OperatorReport
from streamwarden.checkpoint.formats.logs import LogPosition
from streamwarden.checkpoint.formats.schemas import ColumnFamily, StateSchema
from streamwarden.lifecycle.upgrades.changes import ENCODING, What, fixed_settings, state_changes

POSITION = LogPosition(query_id="q", planned=1, planned_at=1.0, committed=1, committed_at=1.0)


def family(
    name: str = "default", key: str = "key int", value: str = "sum long", kind: str | None = None
) -> ColumnFamily:
    return ColumnFamily(name=name, key=tuple(key.split(", ")), value=tuple(value.split(", ")), kind=kind)


def operator(name: str, *families: ColumnFamily, number: int = 0) -> OperatorReport:
    schema = StateSchema(store="default", path="p", version=3, families=families)
    return OperatorReport(
        operator=number,
        name=name,
        partitions=1,
        stores=("default",),
        bytes=0,
        bytes_by_partition={},
        schemas=(schema,),
    )


def report(*operators: OperatorReport, encoding: str = "unsaferow", **conf: str) -> CheckpointReport:
    empty: dict[str, Any] = {
        "output": None,
        "retained": None,
        "batches": (),
        "watermark_ms": None,
        "provider": None,
        "shuffle_partitions": 1,
        "stores": (),
    }
    return CheckpointReport(
        path="c", position=POSITION, conf={ENCODING: encoding, **conf}, operators=operators, **empty
    )


def changes(
    old: ColumnFamily, new: ColumnFamily, encoding: str = "unsaferow"
) -> list[tuple[What, str | None, str | None, bool]]:
    found = state_changes(report(operator("op", old), encoding=encoding), report(operator("op", new)))
    return [(change.what, change.before, change.after, change.silent) for change in found]


@pytest.mark.parametrize(
    ("old", "new", "avro", "expected"),
    [
        ("a int", "a int", False, []),
        ("a int", "a long", False, [(What.FIELD_TYPE, "a int", "a long", False)]),
        ("a int", "b int", False, [(What.FIELD_NAME, "a int", "b int", True)]),
        (
            "a int",
            "b int",
            True,
            [(What.FIELD_VANISHES, "a int", None, False), (What.FIELD_APPEARS, None, "b int", False)],
        ),
        ("a int", "a int, b long", False, [(What.FIELD_APPEARS, None, "b long", False)]),
        ("a int, b long", "a int", True, [(What.FIELD_VANISHES, "b long", None, False)]),
        ("a int, b int", "b int, a int", True, [(What.FIELDS_MOVED, "a int, b int", "b int, a int", False)]),
        (
            "a int, b int",
            "b int, a int",
            False,
            [(What.FIELD_NAME, "a int", "b int", True), (What.FIELD_NAME, "b int", "a int", True)],
        ),
        (
            "w struct<x: int>",
            "w struct<y: int>",
            False,
            [(What.FIELD_NAME, "w struct<x: int>", "w struct<y: int>", True)],
        ),
    ],
)
def test_fields_of_the_value(
    old: str, new: str, avro: bool, expected: list[tuple[What, str | None, str | None, bool]]
) -> None:
    assert changes(family(value=old), family(value=new), "avro" if avro else "unsaferow") == expected


def test_a_key_is_never_known_by_its_names() -> None:
    found = changes(family(key="a int"), family(key="b int"), "avro")
    assert found == [(What.FIELD_NAME, "a int", "b int", True)]


def test_variables_appear_vanish_and_change_their_kind() -> None:
    old = operator("op", family("kept", kind="ValueState"), family("gone"), family("$ttl_gone"))
    new = operator("op", family("kept", kind="ListState"), family("added", value="n int"), family("$procTimers_x"))
    found = state_changes(report(old), report(new))
    assert [(change.where, change.what) for change in found] == [
        ("op, added", What.VARIABLE_APPEARS),
        ("op, gone", What.VARIABLE_VANISHES),
        ("op, kept", What.VARIABLE_KIND),
    ], "what Spark keeps for itself is no change of the job's"
    assert str(found[0]) == "operator 0, op, added: variable appears: n int"


def test_operators_are_mapped_by_their_number() -> None:
    old, new = operator("stateStoreSave", family()), operator("dedupe", family(), number=1)
    assert [change.what for change in state_changes(report(old), report(old, new))] == [What.OPERATOR_APPEARS]
    found = state_changes(report(old), report(replace(new, operator=0)))
    assert [(change.what, change.where) for change in found] == [
        (What.OPERATOR_VANISHES, "stateStoreSave"),
        (What.OPERATOR_APPEARS, "dedupe"),
    ]


def test_a_setting_that_the_checkpoint_has_fixed_is_named() -> None:
    before, after = report(**{"spark.sql.shuffle.partitions": "4"}), report(**{"spark.sql.shuffle.partitions": "8"})
    (setting,) = fixed_settings(before, after)
    assert str(setting) == (
        "spark.sql.shuffle.partitions stays 4, which the checkpoint has fixed, although 8 is asked for"
    )
    assert fixed_settings(before, before) == ()
