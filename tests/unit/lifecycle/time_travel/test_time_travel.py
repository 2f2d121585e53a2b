"""Which table, batch and key a person means, and what the errors say that there is."""

from __future__ import annotations

import pytest

from streamwarden.errors import CheckpointError, ConfigError
from streamwarden.lifecycle.time_travel.answers import Entry, Moment, stretches
from streamwarden.lifecycle.time_travel.batches import choose_batch
from streamwarden.lifecycle.time_travel.keys import wanted_fields
from streamwarden.lifecycle.time_travel.tables import StateTable, TableKind, choose_table, tables_of

VARIABLES = {
    "count": "ValueState, expires",
    "ids": "ListState",
    "seconds": "MapState",
    "$procTimers_keyToTimestamp": "TimerState",
}


def processor(**variables: str) -> list[StateTable]:
    return tables_of(0, "transformWithStateExec", variables or VARIABLES)


@pytest.mark.parametrize(
    ("name", "kind", "expiry"),
    [
        ("stateStoreSave", TableKind.ROWS, None),
        ("sessionWindowStateStoreSaveExec", TableKind.ROWS, None),
        ("dedupe", TableKind.ROWS, None),
        ("dedupeWithinWatermark", TableKind.ROWS, "expiresAtMicros"),
        ("flatMapGroupsWithState", TableKind.ROWS, "timeoutTimestamp"),
        ("applyInPandasWithState", TableKind.ROWS, "timeoutTimestamp"),
    ],
)
def test_most_operators_have_one_table(name: str, kind: TableKind, expiry: str | None) -> None:
    (table,) = tables_of(3, name, {})
    assert (table.kind, table.expiry, table.variable) == (kind, expiry, None)
    assert table.options == {"operatorId": "3"}


def test_a_join_has_a_table_for_each_side() -> None:
    assert [table.options for table in tables_of(1, "symmetricHashJoin", {})] == [
        {"operatorId": "1", "joinSide": "left"},
        {"operatorId": "1", "joinSide": "right"},
    ]


@pytest.mark.parametrize(
    "name", ["transformWithStateExec", "transformWithStateInPandasExec", "transformWithStateInPySparkExec"]
)
def test_a_processor_has_a_table_for_each_variable_and_one_for_its_timers(name: str) -> None:
    tables = {table.variable: table for table in tables_of(0, name, VARIABLES)}
    assert {variable: table.kind for variable, table in tables.items()} == {
        "count": TableKind.VALUE,
        "ids": TableKind.LIST,
        "seconds": TableKind.MAP,
        "timers": TableKind.TIMERS,
    }
    assert tables["count"].expiry == "ttlExpirationMs"
    assert tables["ids"].expiry is None
    assert tables["seconds"].options == {"operatorId": "0", "stateVarName": "seconds"}
    assert tables["timers"].options == {"operatorId": "0", "readRegisteredTimers": "true"}


def test_a_processor_without_timers_has_no_table_of_them() -> None:
    assert [table.variable for table in processor(count="ValueState")] == ["count"]


def test_a_variable_that_is_called_timers_does_not_hide_the_timers() -> None:
    found = processor(timers="ValueState", **{"$eventTimers_keyToTimestamp": "TimerState"})
    assert {table.variable: table.kind for table in found} == {
        "timers": TableKind.VALUE,
        "$timers": TableKind.TIMERS,
    }


def test_the_only_table_needs_no_name() -> None:
    (table,) = tables_of(0, "dedupe", {})
    assert choose_table([table], None, None, "s") is table
    assert choose_table(processor(), None, "ids", "s").variable == "ids"
    assert choose_table([table, *tables_of(1, "symmetricHashJoin", {})], 1, "right", "s").variable == "right"


@pytest.mark.parametrize(
    ("operator", "variable", "observed"),
    [
        (None, None, "the state has several tables"),
        (7, None, "no table of operator 7"),
        (0, "idz", "no table of operator 0 and the variable 'idz'"),
    ],
)
def test_an_error_names_the_tables_that_there_are(operator: int | None, variable: str | None, observed: str) -> None:
    with pytest.raises(ConfigError) as caught:
        choose_table(processor(), operator, variable, "user_sessions")
    assert observed in caught.value.observed
    assert "--operator 0 --variable ids (transformWithStateExec, list)" in caught.value.expected
    assert caught.value.where == "user_sessions"
    assert caught.value.next_step


def test_the_newest_kept_batch_is_the_default() -> None:
    assert choose_batch((4, 5, 6), 6, None, "c") == 6
    assert choose_batch((4, 5, 6), 6, 4, "c") == 4


@pytest.mark.parametrize(
    ("kept", "newest", "asked", "observed", "expected"),
    [
        ((4, 5, 6, 8), 8, 3, "batch 3 is not kept any more", "4-6, 8"),
        ((4, 5, 6, 8), 8, 7, "batch 7 is not kept any more", "4-6, 8"),
        ((4, 5, 6), 6, 7, "batch 7 is not committed yet", "4-6"),
        ((), 6, None, "the state of no batch can be read, although batch 6 is committed", "every state file"),
        ((), None, None, "no batch was committed yet", "a committed batch"),
    ],
)
def test_an_error_names_the_batches_that_are_kept(
    kept: tuple[int, ...], newest: int | None, asked: int | None, observed: str, expected: str
) -> None:
    with pytest.raises(CheckpointError) as caught:
        choose_batch(kept, newest, asked, "/checkpoint")
    assert observed in caught.value.observed
    assert expected in caught.value.expected
    assert caught.value.where == "/checkpoint"
    assert caught.value.next_step


def test_a_key_of_one_field_needs_no_name() -> None:
    assert wanted_fields(["k1"], ["key"]) == {0: "k1"}
    assert wanted_fields(["key=k1"], ["key"]) == {0: "k1"}
    assert wanted_fields(["a=b"], ["key"]) == {0: "a=b"}, "a value may have an equals sign"


def test_several_fields_are_named_one_by_one() -> None:
    fields = ["window.start", "window.end", "carrier"]
    assert wanted_fields(["carrier=UA"], fields) == {2: "UA"}
    assert wanted_fields(["carrier=", "window.start=2013-01-01 05:00:00"], fields) == {
        2: "",
        0: "2013-01-01 05:00:00",
    }
    assert wanted_fields([], fields) == {}


@pytest.mark.parametrize("given", ["UA", "carier=UA", "start=1"])
def test_an_error_names_the_fields_of_the_key(given: str) -> None:
    with pytest.raises(ConfigError, match=r"window\.start, carrier"):
        wanted_fields([given], ["window.start", "carrier"])


def moment(batch: int, *values: str) -> Moment:
    return Moment(
        batch=batch,
        rows=len(values),
        entries=tuple(Entry(partition=0, key=("k",), value=value) for value in values),
    )


def test_a_history_shows_when_something_changed() -> None:
    past = [moment(0), moment(1, "1"), moment(2, "1"), moment(3, "2"), moment(5, "2"), moment(6), moment(7, "2")]
    assert [(found.first, found.last, found.moment.rows) for found in stretches(past)] == [
        (0, 0, 0),
        (1, 2, 1),
        (3, 5, 1),
        (6, 6, 0),
        (7, 7, 1),
    ]
    assert stretches([]) == []
