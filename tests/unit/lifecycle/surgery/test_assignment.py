"""Which values may be set, and what a state with one has to be."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from streamwarden.errors import ConfigError
from streamwarden.lifecycle.surgery.assignment import (
    Assign,
    Assigned,
    Assignment,
    Written,
    is_assignable,
    require_assignable,
    unwanted,
)
from streamwarden.lifecycle.time_travel.answers import Change, Difference, Entry
from streamwarden.lifecycle.time_travel.tables import StateTable, TableKind

VALUE = StateTable(operator=0, name="transformWithStateExec", kind=TableKind.VALUE, variable="count")
TIMERS = replace(VALUE, kind=TableKind.TIMERS, variable="timers")
STORE = replace(VALUE, kind=TableKind.STORE, variable="default")
OTHER = StateTable(operator=1, name="dedupe", kind=TableKind.STORE, variable="default")
ROWS = StateTable(operator=0, name="stateStoreSave", kind=TableKind.ROWS)

ASSIGNMENT = Assignment(keys=("k1",), value=("9",))
ASSIGN = Assign(checkpoint="", batch=3, table=VALUE, store="default", wanted=ASSIGNMENT, into="")
BEFORE = Entry(partition=0, key=("k1",), value='{"n":6}', expires_ms=5)
AFTER = replace(BEFORE, value='{"n":9}')
DONE = Assigned(fields=("key",), before=BEFORE, after=AFTER, proven=5, written=Written(gone=1, came=1, right=1))
ADDED = replace(DONE, before=None, written=Written(gone=0, came=1, right=1))

SAME = Difference(
    fields=("key",), rows_before=5, rows_after=5, appeared=0, vanished=0, changed=0, unchanged=5, grew=0, shrank=0
)
ONE = replace(SAME, changed=1)


def read(value: str, key: str = "k1", expires: int = 5) -> Difference:
    """One key changed, and Spark reads this value."""
    row = json.dumps({"value": value, "expires_ms": expires})
    change = Change(
        key=(key,), rows_before=1, rows_after=1, bytes_before=8, bytes_after=8, before=BEFORE.value, after=row
    )
    return replace(ONE, sample=(change,))


RIGHT = read('{"n":9}')


def test_exactly_this_row_differs() -> None:
    assert unwanted([(VALUE, RIGHT), (STORE, ONE), (TIMERS, SAME), (OTHER, SAME)], DONE, ASSIGN) == ()
    added = replace(RIGHT, changed=0, appeared=1)
    assert unwanted([(VALUE, added), (STORE, ONE)], ADDED, ASSIGN) == ()
    assert ASSIGN.family == "count"
    assert replace(ASSIGN, table=ROWS).family == "default"


@pytest.mark.parametrize(
    ("table", "difference", "said"),
    [
        (VALUE, SAME, "count: 0 keys appeared, 0 vanished, 0 changed"),
        (VALUE, replace(RIGHT, changed=2), "2 changed"),
        (VALUE, replace(RIGHT, appeared=1), "1 keys appeared"),
        (VALUE, replace(RIGHT, vanished=1), "1 vanished"),
        (VALUE, read('{"n":8}'), "Spark reads another value"),
        (VALUE, read('{"n":9}', key="k2"), "Spark reads another value"),
        (VALUE, read('{"n":9}', expires=6), "Spark reads another value"),
        (STORE, SAME, "default: 0 keys appeared"),
        (STORE, replace(ONE, changed=2), "2 changed"),
        (TIMERS, ONE, "timers: 0 keys appeared, 0 vanished, 1 changed"),
        (OTHER, ONE, "operator 1 (dedupe), default"),
    ],
)
def test_whatever_else_differs_is_named(table: StateTable, difference: Difference, said: str) -> None:
    (wrong,) = unwanted([(table, difference)], DONE, ASSIGN)
    assert said in wrong


@pytest.mark.parametrize(
    "written",
    [Written(gone=0, came=0, right=0), Written(gone=2, came=2, right=1), Written(gone=1, came=1, right=0)],
    ids=["nothing", "another row, too", "another value"],
)
def test_rows_of_the_store_are_counted(written: Written) -> None:
    (wrong,) = unwanted([(VALUE, RIGHT)], replace(DONE, written=written), ASSIGN)
    assert f"{written.gone} rows of the store went and {written.came} came" in wrong


@pytest.mark.parametrize(
    ("table", "may"),
    [
        (VALUE, True),
        (ROWS, True),
        (replace(ROWS, name="applyInPandasWithState"), True),
        (replace(ROWS, name="flatMapGroupsWithState"), True),
        (replace(ROWS, name="dedupe"), False),
        (replace(ROWS, name="sessionWindowStateStoreSaveExec"), False),
        (replace(VALUE, kind=TableKind.LIST), False),
        (replace(VALUE, kind=TableKind.MAP), False),
        (replace(ROWS, name="symmetricHashJoin", kind=TableKind.SIDE, variable="left"), False),
        (TIMERS, False),
    ],
)
def test_what_has_one_value_for_each_key(table: StateTable, may: bool) -> None:
    assert is_assignable(table) is may
    if may:
        return require_assignable(table, "minutes")
    with pytest.raises(ConfigError, match="has no value that could be set"):
        require_assignable(table, "minutes")


def test_records_have_a_digest_of_key_and_value() -> None:
    """A setting that was killed is completed by the same one alone."""
    assert ASSIGNMENT.digest("minutes") == ASSIGNMENT.digest("minutes")
    others = [replace(ASSIGNMENT, value=("8",)), replace(ASSIGNMENT, keys=("k2",))]
    assert len({ASSIGNMENT.digest("minutes"), ASSIGNMENT.digest("other"), *(x.digest("minutes") for x in others)}) == 4
