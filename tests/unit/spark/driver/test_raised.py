"""Which function of foreachBatch is blamed for the end of a query, and how long a query is kept."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import pytest

from streamwarden.spark.driver.failures import run_of
from streamwarden.spark.driver.foreach_errors import ForeachErrors, Guarded


@dataclass
class Query:
    """What PySpark says of a query."""

    id: str
    runId: str  # noqa: N815


class Ended(Exception):
    """What Spark raises where a script waits for a query that ended."""

    def __init__(self, run: str | None = None) -> None:
        super().__init__("[FOREACH_BATCH_USER_FUNCTION_ERROR] in the batch")
        self._run = run

    def getMessageParameters(self) -> dict[str, str] | None:  # noqa: N802
        return {"id": "q", "runId": self._run} if self._run else None


class Writer:
    """A writer that starts runs of the queries it is given, one after the other."""

    def __init__(self, raised: ForeachErrors) -> None:
        self._start = partial(raised._start, lambda writer, query: query)

    def start(self, query: str, run: str, failure: BaseException | None = None) -> None:
        guard = Guarded(lambda frame, batch: None)
        guard.failure = failure
        self._streamwarden_function = guard
        self._start(self, Query(query, run))


OUTAGE, TYPO = ConnectionError("the database is away"), NameError("nmae")


@pytest.fixture
def raised(monkeypatch: pytest.MonkeyPatch) -> ForeachErrors:
    from streamwarden.spark.driver import foreach_errors as module

    monkeypatch.setattr(module, "is_of_function", lambda chain: True)
    return ForeachErrors()


def behind(raised: ForeachErrors, error: BaseException) -> BaseException | None:
    return raised.explain(error)[0]


def test_the_function_of_the_query_that_ended_is_blamed_not_the_newest(raised: ForeachErrors) -> None:
    writer = Writer(raised)
    writer.start("a", "run a", OUTAGE)
    writer.start("b", "run b", TYPO)
    assert behind(raised, Ended("run a")) is OUTAGE
    assert behind(raised, Ended("run b")) is TYPO


def test_a_failure_that_the_script_recovered_from_is_blamed_for_nothing_later(raised: ForeachErrors) -> None:
    writer = Writer(raised)
    writer.start("b", "run b1", TYPO)
    writer.start("b", "run b2")
    writer.start("a", "run a", OUTAGE)
    assert behind(raised, Ended()) is OUTAGE
    assert raised.explain_query("run b1") == (None, ())


def test_no_function_is_blamed_when_the_error_fits_two(raised: ForeachErrors) -> None:
    writer = Writer(raised)
    writer.start("a", "run a", OUTAGE)
    assert behind(raised, Ended()) is OUTAGE
    writer.start("b", "run b", TYPO)
    assert behind(raised, Ended()) is None


def test_a_query_that_is_started_again_and_again_is_kept_once(raised: ForeachErrors) -> None:
    writer = Writer(raised)
    for number in range(100):
        writer.start("a", f"run {number}")
    assert [each.run_id for each in raised._started.values()] == ["run 99"]


def test_the_run_is_read_from_the_cause_too() -> None:
    error = RuntimeError("the script gives up")
    error.__cause__ = Ended("run a")
    assert run_of(error) == "run a"
    assert run_of(ValueError("x")) is None
