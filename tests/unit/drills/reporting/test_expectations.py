"""What the judge expected, in plain sentences."""

from __future__ import annotations

from typing import Any

import pytest

from streamwarden.drills.records.types import Judgement
from streamwarden.drills.reporting.expectations import EMPTY, NOT_IN, SUM, expectations_of


def judged(**stored: Any) -> Judgement:
    return Judgement(judge="great_expectations 1.24.1", success=False, expectations=({"success": True, **stored},))


def amount(column: str, least: float, most: float | None = None) -> dict[str, Any]:
    return {"column": column, "min_value": least} | ({} if most is None else {"max_value": most})


@pytest.mark.parametrize(
    ("name", "about", "sentence"),
    [
        (SUM, amount("lost", 0.0, 0.0), "no row is lost"),
        (SUM, amount("rows", 169610.0, 169610.0), "the output has 169,610 rows"),
        (SUM, amount("records", 100000.0), "at least 100,000 input records were read"),
        (SUM, amount("rows", 1.0), "the output has at least 1 row"),
        (SUM, amount("records", 1, 1), "1 input record was read"),
        (SUM, amount("lost", 0, 1), "between 0 and 1 rows are lost"),
        (SUM, amount("problems", 0, 0), "no problem was found"),
        (SUM, amount("unbalanced", 0, 0), "every group balances"),
        (SUM, amount("sum of flights", 5.0, 5.0), "the sum of flights is 5"),
        (SUM, amount("gap of rows", 0, 0), "the gap of rows is 0"),
        (SUM, amount("flights", 5, 9), "the sum of flights is between 5 and 9"),
        (NOT_IN, {"column": "deviation", "value_set": ["lost"]}, "none is lost"),
        (EMPTY, {"column": "problem"}, "none has a problem"),
        ("expect_something_new", {"value": 3}, "expect_something_new: value 3"),
        ("expect_something_new", None, "expect_something_new"),
    ],
)
def test_each_expectation_is_a_sentence(name: str, about: dict[str, Any] | None, sentence: str) -> None:
    (found,) = expectations_of(judged(suite="output", name=name, about=about))
    assert found.expected == sentence


def test_unmet_expectation_names_the_observation() -> None:
    problem = [{"value": "column price: STRING, expected BIGINT", "count": 1}]
    (found,) = expectations_of(
        judged(suite="columns", name=EMPTY, about={}, success=False, observed=1, unexpected_samples=problem)
    )
    assert (found.met, found.observed, found.about) == (False, "1", "the columns")
    assert found.examples == ("column price: STRING, expected BIGINT",)


def test_the_query_of_a_script_is_named() -> None:
    (found,) = expectations_of(judged(suite="left: output", name=SUM, about=amount("lost", 0, 0)))
    assert found.about == "left: the output, counted a second time"


def test_unjudged_run_has_no_outcome() -> None:
    assert expectations_of(None) == ()
