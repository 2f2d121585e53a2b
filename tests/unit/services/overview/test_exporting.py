"""What Prometheus gets: each number under one name, in base units, and nothing where nothing is known."""

from __future__ import annotations

import math
import re

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from reference_pages.metrics import page
from streamwarden.health.verdict import Status
from streamwarden.services.exporting.metrics import CHECK_METRICS, COUNTS, METRICS, SINGLES, STATE_SETS, names
from streamwarden.services.exporting.openmetrics import Scrape, exposition
from streamwarden.services.overview.rows import Judgement, StreamRow
from support.streams.stream_rows import NOW, full_row, judged, stream_row

OPENMETRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"


def scraped(*rows: StreamRow, read_at: float | None = NOW - 1, judged_at: float | None = NOW - 25) -> dict[str, float]:
    """Sample with its labels -> value, as OpenMetrics' own parser reads the text."""
    text, content_type = exposition(Scrape(now=NOW, rows=rows, read_at=read_at, judged_at=judged_at), OPENMETRICS)
    assert content_type.startswith("application/openmetrics-text; version=1.0.0")
    samples = [each for family in text_string_to_metric_families(text.decode()) for each in family.samples]
    found = {
        f"{each.name}{{{','.join(f'{key}={value}' for key, value in sorted(each.labels.items()))}}}": each.value
        for each in samples
    }
    assert len(found) == len(samples)
    return found


def test_every_number_of_a_stream_has_its_name_and_labels() -> None:
    """Bytes, seconds and shares of 1, never milliseconds or per cent."""
    found = scraped(full_row("flights"))
    of = "{query=,stream=flights}"
    expected = {
        "streamwarden_up": 1,
        "streamwarden_input_rows_per_second": 1200.5,
        "streamwarden_processed_rows_per_second": 3000,
        "streamwarden_batches_total": 42,
        "streamwarden_batch_id": 41,
        "streamwarden_batch_age_seconds": 3,
        "streamwarden_batch_duration_seconds": 1.5,
        "streamwarden_trigger_interval_seconds": 2,
        "streamwarden_state_critical_in_seconds": 3600,
        "streamwarden_acknowledged_incidents": 1,
        "streamwarden_muted_incidents": 1,
        "streamwarden_muted": 0,
        "streamwarden_uptime_seconds": 600,
        "streamwarden_watermark_lag_seconds": 30,
        "streamwarden_restarts_last_day": 3,
        "streamwarden_evaluation_age_seconds": 20,
        "streamwarden_drill_age_seconds": 60,
        "streamwarden_state_size_bytes": 0,
        "streamwarden_checkpoint_duration_seconds": 1,
        "streamwarden_state_update_latency_seconds": 2,
        "streamwarden_state_cleanup_time_seconds": 3,
        "streamwarden_memory_usage_bytes": 4,
    }
    assert {name: found[name + of] for name in expected} == expected
    assert found["streamwarden_stream_info{dag_id=stream_flights,owner=ann,query=,stream=flights}"] == 1
    assert found["streamwarden_round_age_seconds{}"] == 25


def test_every_declared_metric_is_exported_and_no_other() -> None:
    """Of a stream of which everything is known."""
    found = {sample.partition("{")[0] for sample in scraped(full_row("flights"))}
    assert found == names()


def test_what_is_not_known_is_left_out() -> None:
    """Neither 0 nor NaN. A stream that never ran still has its state."""
    found = scraped(stream_row("quiet", judged("state_size", None, Status.UNKNOWN), state="new"), judged_at=None)
    left = {sample.partition("{")[0] for sample in found}
    assert left == {
        "streamwarden_stream_info",
        "streamwarden_stream_state",
        "streamwarden_stream_health",
        "streamwarden_up",
        "streamwarden_open_incidents",
        "streamwarden_acknowledged_incidents",
        "streamwarden_muted_incidents",
        "streamwarden_muted",
        "streamwarden_restarts_last_day",
        "streamwarden_check_status",
        "streamwarden_rows_age_seconds",
        "streamwarden_scrape_failures",
    }
    assert found["streamwarden_check_status{check=state_size,query=,stream=quiet}"] == Status.UNKNOWN.rank
    assert not any(math.isnan(value) for value in found.values())


def test_incidents_are_counted_by_their_status() -> None:
    """Also those that there are none of, so that an alert can compare; their sum is that of the stream."""
    found = scraped(full_row("flights"))
    assert found["streamwarden_open_incidents{query=,status=CRITICAL,stream=flights}"] == 2
    assert found["streamwarden_open_incidents{query=,status=WARNING,stream=flights}"] == 0


def test_a_watermark_ahead_of_the_clock_is_negative() -> None:
    found = scraped(full_row("flights", watermark=NOW + 5))
    assert found["streamwarden_watermark_lag_seconds{query=,stream=flights}"] == -5


def test_a_stream_in_maintenance_is_muted() -> None:
    assert scraped(full_row("s", muted="in maintenance"))["streamwarden_muted{query=,stream=s}"] == 1


def test_a_check_that_does_not_apply_has_no_series() -> None:
    """0 would be OK, and 1 an alarm of nobody who looks."""
    row = stream_row("s", judged("state_size", None, Judgement.NOT_APPLICABLE))
    assert not any(sample.startswith("streamwarden_check_status") for sample in scraped(row))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_number_that_is_none_is_left_out(value: float) -> None:
    assert "streamwarden_memory_usage_bytes{query=,stream=s}" not in scraped(
        stream_row("s", judged("memory_usage", value))
    )


def test_values_of_an_evaluation_that_is_too_old_are_left_out() -> None:
    """They do not describe the stream any more. What the store knows of batches still does."""
    found = {sample.partition("{")[0] for sample in scraped(full_row("flights", stale=True, backlog_seconds=None))}
    gone = names() - found
    assert gone == {each.name for each in CHECK_METRICS.values()} | {"streamwarden_state_critical_in_seconds"}


def test_exactly_one_word_is_true_of_a_stream() -> None:
    found = scraped(full_row("flights", state="down", health=Status.CRITICAL))
    for states, word in zip(STATE_SETS, ("down", "CRITICAL", "DEVIATED"), strict=True):
        mine = {sample: value for sample, value in found.items() if sample.startswith(states.name + "{")}
        assert len(mine) == len(states.words)
        assert [sample for sample, value in mine.items() if value] == [
            f"{states.name}{{query=,stream=flights,{states.name}={word}}}"
        ]


def test_a_query_of_several_has_its_own_series_but_not_the_drivers() -> None:
    """Restarts and drills belong to the stream."""
    found = scraped(full_row("clicks"), full_row("clicks/by_page"))
    mine = {sample.partition("{")[0] for sample in found if "query=by_page" in sample}
    whole = {sample.partition("{")[0] for sample in found if "query=," in sample}
    of_streams = {"streamwarden_restarts_last_day", "streamwarden_drill_age_seconds", "streamwarden_drill_verdict"}
    assert whole - mine == of_streams
    assert mine <= whole


def test_a_store_that_does_not_answer_is_a_number_of_its_own() -> None:
    """No stream has metrics then, and the scrape itself succeeds."""
    assert scraped(read_at=None, judged_at=None) == {"streamwarden_scrape_failures{}": 1}


def test_number_of_series_of_a_stream_matches_the_reference() -> None:
    stated = re.search(r"At most (\d+) for each stream", page())
    assert stated is not None
    assert len(scraped(full_row("a"), full_row("b"))) - len(scraped(full_row("a"))) == int(stated[1])


def test_names_end_with_their_unit_and_are_unique() -> None:
    """As Prometheus wants it; only a counter ends with `_total`."""
    declared = [each.sample for each in METRICS] + [each.name for each in (*STATE_SETS, *COUNTS, *SINGLES)]
    assert len(declared) == len(set(declared))
    for each in (*METRICS, *SINGLES):
        assert re.fullmatch(r"streamwarden_[a-z_]+", each.name)
        assert each.name.endswith(f"_{each.unit}" if each.unit else "")
        assert each.unit in ("", "bytes", "seconds", "ratio")
        assert each.help


def test_a_program_that_does_not_ask_for_openmetrics_gets_the_older_text() -> None:
    text, content_type = exposition(Scrape(now=NOW, rows=[full_row("s")], read_at=NOW), "*/*")
    assert content_type.startswith("text/plain; version=0.0.4")
    assert b'streamwarden_batches_total{query="",stream="s"} 42.0' in text
