"""Events from the future: what moved the watermark, since when, and that nobody is told to lengthen the delay."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from streamwarden.health.checks.input import late_rows, watermark_ahead
from streamwarden.health.verdict import Status, Verdict
from streamwarden.progress import Progress, parse_timestamp
from support.streams.health_windows import NOW, iso, judge, report, window

OK, WARNING, CRITICAL, UNKNOWN = Status.OK, Status.WARNING, Status.CRITICAL, Status.UNKNOWN
FUTURE = datetime(2099, 1, 6, 8, tzinfo=UTC).timestamp()
DELAY = 300.0


def run(events: list[float], *, step: float = 10.0, dropped: int = 900) -> list[Progress]:
    """One batch each `step` seconds, the newest at NOW, with these newest events; late rows once one is from later."""
    start, highest, reports = NOW - step * (len(events) - 1), 0.0, []
    for batch, event in enumerate(events):
        at = start + step * batch
        event_time = {"max": iso(event), "watermark": iso(max(0.0, highest - DELAY))}
        late = {"numRowsDroppedByWatermark": dropped if event < highest - DELAY else 0}
        top = {"numInputRows": 1_000, "batchDuration": 1_000, "eventTime": event_time}
        reports.append(report(batch, at, top=top, operator=late))
        highest = max(highest, event)
    return reports


def live(count: int, *, poison: int | None = None, event: float = FUTURE) -> list[float]:
    """The newest events of batches that read what came just before them; batch `poison` reads `event` as well."""
    return [event if batch == poison else NOW - 10.0 * (count - 1 - batch) for batch in range(count)]


def test_an_event_of_2099_is_critical_and_named_with_its_batch() -> None:
    verdict = judge(watermark_ahead.CHECK, window(run(live(20, poison=7))))
    assert verdict.status is CRITICAL
    assert verdict.value == pytest.approx(FUTURE - DELAY - NOW)
    for words in ("72.0 years ahead", "2099-01-06 07:55:00", "since batch 7", "2099-01-06 08:00:00 UTC"):
        assert words in verdict.reason, verdict.reason
    assert "before batch 7" in verdict.advice
    assert "not_after" in verdict.advice


@pytest.mark.parametrize(("ahead", "status"), [(0, OK), (599, OK), (600, WARNING), (3_600, WARNING), (3_601, CRITICAL)])
def test_boundaries(ahead: int, status: Status) -> None:
    mine = window(run(live(20, poison=7, event=NOW + DELAY + ahead), dropped=0))
    assert judge(watermark_ahead.CHECK, mine).status is status


def test_the_batch_is_remembered_when_it_has_left_the_window() -> None:
    reports = run(live(200, poison=7))
    first = judge(watermark_ahead.CHECK, window(reports[:50], now=reports[49].at))
    later = judge(watermark_ahead.CHECK, window(reports[100:], previous={"watermark_ahead": first}))
    assert (later.status, later.evidence["batch"]) == (CRITICAL, 7)
    unknown = judge(watermark_ahead.CHECK, window(reports[100:]))
    assert unknown.status is CRITICAL
    assert "before the oldest batch that is known" in unknown.reason


def test_the_querys_very_first_event_may_be_the_one() -> None:
    verdict = judge(watermark_ahead.CHECK, window(run(live(3, poison=0))))
    assert (verdict.status, verdict.evidence["batch"]) == (CRITICAL, 0)


def test_milliseconds_that_are_read_as_seconds_are_in_the_year_58841() -> None:
    """Spark writes such a year with a plus sign, beyond the calendar of Python; the report is read all the same."""
    reports = run(live(20))
    event_time = {"max": "+58841-05-18T00:00:00.000Z", "watermark": "+58841-05-17T23:55:00.000Z"}
    mad = [report(20 + n, NOW + 10 * n, top={"eventTime": event_time, "numInputRows": 9}) for n in range(3)]
    verdict = judge(watermark_ahead.CHECK, window([*reports, *mad], now=NOW + 20))
    assert verdict.status is CRITICAL
    assert "the year 58,841" in verdict.reason
    assert parse_timestamp("+12026-01-01T00:00:00.000Z") - parse_timestamp("+10026-01-01T00:00:00.000Z") == (
        parse_timestamp("4026-01-01T00:00:00.000Z") - parse_timestamp("2026-01-01T00:00:00.000Z")
    )


def _late(reports: list[Progress]) -> Verdict:
    return judge(late_rows.CHECK, window(reports))


def test_no_longer_delay_is_advised_while_the_watermark_is_wrong() -> None:
    verdict = _late(run(live(20, poison=7)))
    assert verdict.status is CRITICAL
    assert verdict.advice == late_rows.AHEAD


def test_rows_that_are_late_by_themselves_keep_their_advice() -> None:
    """Negative control: the watermark moves with the clock, and some rows come late."""
    reports = run(live(20))
    late = [
        report(r.batch_id, r.at, top={**r.raw, "timestamp": iso(r.at)}, operator={"numRowsDroppedByWatermark": 90})
        for r in reports
    ]
    assert judge(watermark_ahead.CHECK, window(late)).status is OK
    assert _late(late).advice == late_rows.CHECK.advice


class TestJump:
    """A watermark behind the clock that one wrong event moved by hours."""

    def events(self, by: float) -> list[float]:
        """A day behind the clock; batch 10 of 20 reads an event that is later by `by`."""
        return [at - 86_400 + (by if batch == 10 else 0) for batch, at in enumerate(live(20))]

    def test_a_wrong_zone_is_seen(self) -> None:
        verdict = judge(watermark_ahead.CHECK, window(run(self.events(5 * 3_600))))
        assert (verdict.status, verdict.evidence["batch"]) == (WARNING, 10)
        assert "jumped by 5h" in verdict.reason
        assert _late(run(self.events(5 * 3_600))).advice == late_rows.AHEAD

    def test_a_jump_that_costs_no_row_is_well(self) -> None:
        assert judge(watermark_ahead.CHECK, window(run(self.events(5 * 3_600), dropped=0))).status is OK

    def test_a_replay_that_gains_hours_in_each_batch_is_well(self) -> None:
        replay = [NOW - 4e8 + 4 * 3_600 * batch for batch in range(20)]
        replay[12] = replay[11] - 8 * 3_600  # one batch of late rows
        replay[11] = replay[10] + 9 * 3_600
        assert judge(watermark_ahead.CHECK, window(run(replay[:13]))).status is OK

    def test_it_ends_when_event_time_moves_again(self) -> None:
        events = [*self.events(5 * 3_600), *(NOW - 86_400 + 6 * 3_600 + 10 * n for n in range(3))]
        assert judge(watermark_ahead.CHECK, window(run(events))).status is OK


def test_a_query_without_a_watermark_is_well_and_without_reports_unknown() -> None:
    bare = [report(n, top={"eventTime": {}}) for n in range(5)]
    assert judge(watermark_ahead.CHECK, window(bare)).status is OK
    assert judge(watermark_ahead.CHECK, window()).status is UNKNOWN
