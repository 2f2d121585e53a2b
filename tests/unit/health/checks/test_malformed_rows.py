"""Rows that could not be used: their share, a batch without a usable one, the reasons, and those that nobody kept."""

from __future__ import annotations

import json

import pytest

from streamwarden.health.checks.input import malformed_not_kept, malformed_rows
from streamwarden.health.quarantine import QuarantineGap, gaps_of, kind_of, sample_of
from streamwarden.health.verdict import Status, Verdict
from streamwarden.lifecycle.driver import DriverEvent
from support.streams.health_windows import NOW, judge, report, spec, window

OK, WARNING, CRITICAL, UNKNOWN = Status.OK, Status.WARNING, Status.CRITICAL, Status.UNKNOWN
ROWS = 10_000


def judged(*batches: dict[str, int], quarantine: str | None = "/data/quarantine", **changes: object) -> Verdict:
    """The verdict on batches with these counts of the source's rows."""
    reports = [report(n, top={"observedMetrics": {"input": counts}}) for n, counts in enumerate(batches)]
    return judge(malformed_rows.CHECK, window(reports, spec=spec(quarantine=quarantine), **changes))


def batch(malformed: int, read: int = ROWS, empty: int = 0) -> dict[str, int]:
    return {"read": read, "malformed": malformed, "empty": empty}


@pytest.mark.parametrize(
    ("malformed", "status"), [(0, OK), (99, OK), (100, WARNING), (1_000, WARNING), (1_001, CRITICAL)]
)
def test_boundaries(malformed: int, status: Status) -> None:
    """1 % is WARNING, 10 % too, more is CRITICAL."""
    verdict = judged(*[batch(malformed)] * 20)
    assert (verdict.status, verdict.value) == (status, malformed / ROWS)


def test_the_newest_batches_count_and_not_the_total_since_the_first_start() -> None:
    good, bad = [batch(0)] * 80, [batch(2_000)] * 20
    assert judged(*good, *bad).status is CRITICAL
    assert judged(*bad, *good).status is OK


def test_a_batch_of_which_nothing_was_usable_is_critical_however_good_the_others_were() -> None:
    verdict = judged(*[batch(0)] * 10, batch(3, read=3), *[batch(0)] * 5)
    assert verdict.status is CRITICAL
    assert "batch 10 had no usable row among its 3" in verdict.reason
    assert judged(*[batch(0)] * 10, batch(2, read=3), *[batch(0)] * 5).status is OK  # negative control


def test_rows_without_a_value_in_any_column_are_not_usable() -> None:
    """A renamed schema: every row parses, and is null in every column."""
    verdict = judged(*[batch(0)] * 10, batch(0, empty=ROWS))
    assert verdict.status is CRITICAL
    assert "renamed columns" in verdict.reason


def test_few_rows_are_not_judged_and_without_a_quarantine_none_is_set_aside() -> None:
    assert judged(*[batch(1, read=9)] * 3).status is UNKNOWN
    assert judged(*[batch(5_000)] * 9, quarantine=None).status is OK


def test_the_reasons_and_an_example_come_from_the_quarantine() -> None:
    lines = [
        json.dumps({"raw": "{oops", "reason": "not a JSON object"}),
        *(
            json.dumps({"raw": f"row {n}", "reason": f"does not fit the schema: n is not of type int: {n}x"})
            for n in "12"
        ),
        '{"raw": "cut o',
    ]
    sample = sample_of(7, lines)
    assert sample is not None
    assert (sample.rows, sample.example) == (3, "row 1")
    verdict = judged(*[batch(2_000)] * 20, quarantined=sample)
    assert "in batch 7: does not fit the schema: n is not of type int (2); not a JSON object (1)" in verdict.reason
    assert verdict.evidence["example"] == "row 1"
    assert "row 1" not in verdict.reason  # a message goes to more people than the page
    assert sample_of(7, []) is None


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("not a JSON object", "not a JSON object"),
        ("lacks shop, amount", "lacks shop, amount"),
        ("has event_time ahead of its file: 2099-01-06 08:00:00", "has event_time ahead of its file"),
        (
            "does not fit the schema: a is not of type int: x; b is not of type date: y",
            "does not fit the schema: a is not of type int; b is not of type date",
        ),
        ("has shop of 1048577 bytes, more than 1048576", "has shop of bytes, more than 1048576"),
    ],
)
def test_rows_with_one_reason_and_other_values_are_counted_together(reason: str, kind: str) -> None:
    assert kind_of(reason) == kind


def gap(first: int, last: int, rows: int | None, at: float = NOW - 60) -> QuarantineGap:
    return QuarantineGap(query_id="q", first=first, last=last, at=at, reason="the file is gone", rows=rows)


@pytest.mark.parametrize(
    ("gaps", "status", "value"),
    [
        ((), OK, 0),
        ((gap(3, 3, 1),), WARNING, 1),
        ((gap(3, 3, 1_000),), WARNING, 1_000),
        ((gap(3, 3, 1_000), gap(5, 6, 1)), CRITICAL, 1_001),
        ((gap(3, 4, None),), WARNING, 0),
    ],
)
def test_rows_that_are_in_no_quarantine_alarm(gaps: tuple[QuarantineGap, ...], status: Status, value: int) -> None:
    verdict = judge(malformed_not_kept.CHECK, window([report()], gaps=gaps))
    assert (verdict.status, verdict.value) == (status, value)
    assert not gaps or "the file is gone" in verdict.reason


def test_a_gap_that_two_drivers_reported_counts_once() -> None:
    events = [
        DriverEvent(
            driver_id="d", at=NOW, kind="quarantine_gap", detail={"query_id": "q", "first": first, "last": last}
        )
        for first, last in (("0", "0"), ("0", "1"), ("1", "1"), ("5", "6"))
    ]
    assert [(found.first, found.last) for found in gaps_of(events)] == [(0, 0), (1, 1), (5, 6)]
