"""The columns of an output: types are compared, columns that no oracle declares are reported or refused."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from streamwarden.errors import VerificationError
from streamwarden.verification.comparing.column_types import ColumnType, parse_type, type_of_values
from streamwarden.verification.comparing.columns import ColumnReport, Role, report_columns
from streamwarden.verification.oracle import Expectation, RowCounts

COUNTS = RowCounts(records=1, malformed=0, pairs=1, dropped=0, emitted=1, emitted_before=0, open=0)


def expectation(**more: object) -> Expectation:
    rows = {("EWR",): (5, datetime(2013, 1, 1, tzinfo=UTC))}
    return Expectation(key_columns=("origin",), value_columns=("flights", "at"), rows=rows, counts=COUNTS, **more)  # type: ignore[arg-type]


def report(output: dict[str, list[str]], *, complete: bool = False, **more: object) -> dict[str, ColumnReport]:
    kinds = {name: [parse_type(kind) for kind in kinds] for name, kinds in output.items()}
    oracle = expectation(complete=complete, **more)
    reports = report_columns(oracle.key_columns, oracle.column_types(), kinds, complete=oracle.complete)
    return {each.name: each for each in reports}


RIGHT = {"origin": ["string"], "flights": ["bigint"], "at": ["timestamp"]}


def test_the_types_of_the_expected_values_are_compared() -> None:
    assert not [each for each in report(RIGHT).values() if each.problem]
    wrong = report({**RIGHT, "flights": ["double"]})["flights"]
    assert wrong.problem == (
        "the column flights is double in the output; "
        "the oracle expects a whole number (tinyint, smallint, int or bigint)"
    )


def test_a_declared_type_is_compared_exactly() -> None:
    assert report(RIGHT, types={"flights": "INT"})["flights"].problem == (
        "the column flights is bigint in the output; the oracle expects int"
    )
    assert report(RIGHT, types={"flights": "BIGINT"})["flights"].problem is None


def test_a_column_that_changes_its_type_within_the_output_is_a_problem() -> None:
    found = report({**RIGHT, "flights": ["bigint", "double"]}, types={"flights": "BIGINT"})["flights"]
    assert found.problem == "the column flights is bigint and double in the output; the oracle expects bigint"


def test_a_column_that_the_oracle_does_not_name_is_not_judged() -> None:
    found = report({**RIGHT, "salt": ["string"]})["salt"]
    assert (found.role, found.problem, found.actual) == (Role.NOT_JUDGED, None, ("string",))


def test_it_is_a_problem_if_the_oracle_declares_the_whole_set() -> None:
    found = report({**RIGHT, "salt": ["string"]}, complete=True)["salt"]
    assert found.role is Role.ADDITIONAL
    assert found.problem == (
        "the output has the additional column salt (string); the oracle declares origin, flights, at and no other"
    )


def test_a_column_that_is_missing_is_a_problem() -> None:
    found = report({"origin": ["string"], "at": ["timestamp"]})["flights"]
    assert found.problem == "the output has no column flights, which the oracle names"
    assert found.role is Role.VALUE


def test_an_output_without_anything_has_no_columns_to_judge() -> None:
    assert report({}) == {}


@pytest.mark.parametrize(
    ("value", "fits", "does_not"),
    [
        (1, ["tinyint", "int", "bigint"], ["double", "decimal(10,0)", "string", "boolean"]),
        (1.0, ["float", "double"], ["bigint", "decimal(3,1)"]),
        (True, ["boolean"], ["int", "string"]),
        (Decimal("1.0"), ["decimal(3,1)", "decimal(38,18)"], ["double", "bigint"]),
        (b"x", ["binary"], ["string"]),
        (date(2013, 1, 1), ["date"], ["timestamp", "string"]),
        (datetime(2013, 1, 1), ["timestamp_ntz"], ["timestamp"]),
        (datetime(2013, 1, 1, tzinfo=UTC), ["timestamp"], ["timestamp_ntz", "date"]),
        ([1], ["array<bigint>"], ["array<double>", "bigint", "struct<a:bigint>"]),
        ([], ["array<bigint>", "array<string>"], ["string"]),
        ([("a", 1)], ["map<string,bigint>"], ["string"]),
        ({"a": 1}, ["struct<a:bigint>", "struct<a:bigint,b:string>"], ["struct<a:double>", "array<bigint>"]),
        ([{"a": 1.5}], ["array<struct<a:double>>"], ["array<struct<a:bigint>>"]),
    ],
)
def test_a_value_fits_the_types_that_can_hold_it(value: object, fits: list[str], does_not: list[str]) -> None:
    kind = type_of_values([None, value])
    assert kind is not None
    assert [each for each in fits if not kind.agrees(parse_type(each))] == []
    assert [each for each in does_not if kind.agrees(parse_type(each))] == []


def test_values_of_two_kinds_fit_the_types_of_both() -> None:
    kind = type_of_values([1, 2.5])
    assert kind is not None
    assert kind.agrees(parse_type("bigint"))
    assert kind.agrees(parse_type("double"))
    assert not kind.agrees(parse_type("string"))
    assert type_of_values([None, None]) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("BIGINT", "long"),
        ("Array<Struct<a: INT, b: MAP<STRING, DOUBLE>>>", "array<struct<a:int,b:map<string,double>>>"),
        ("decimal(10, 2)", "numeric(10,2)"),
        ("varchar(10)", "string"),
        ("decimal", "decimal(10,0)"),
    ],
)
def test_types_are_written_as_in_ddl(one: str, other: str) -> None:
    assert parse_type(one).agrees(parse_type(other))


@pytest.mark.parametrize(
    "written", ["", "bigint unsigned", "array<>", "map<string>", "array<int", "decimal(a)", "int,int"]
)
def test_what_is_no_type_is_refused(written: str) -> None:
    with pytest.raises(VerificationError, match="the column flights is declared as"):
        expectation(types={"flights": written})


def test_declarations_name_columns_of_the_oracle() -> None:
    with pytest.raises(VerificationError, match="`types` names the column fligths") as error:
        expectation(types={"fligths": "INT"})
    assert error.value.expected == "one of origin, flights, at"


def test_a_part_that_is_not_known_can_be_anything() -> None:
    assert ColumnType("a JSON array", frozenset({"array"})).agrees(parse_type("array<int>"))
