"""What makes a task of the health DAG red, green or skipped."""

from __future__ import annotations

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from streamwarden.airflow.dags.health import label, show
from streamwarden.health.verdict import Status
from streamwarden.services.monitoring.round_entries import Entry


def entry(status: Status, *, judged: bool = True) -> Entry:
    return Entry(title="s", status=status, lines=(f"{status} state_size: …",), judged=judged)


@pytest.mark.parametrize("status", [Status.OK, Status.WARNING])
def test_a_stream_that_runs_well_enough_is_green(status: Status, capsys: pytest.CaptureFixture[str]) -> None:
    """Its verdicts are in the log."""
    show(entry(status))
    assert capsys.readouterr().out == f"{status} state_size: …\n"


@pytest.mark.parametrize("judged", [True, False])
def test_a_stream_without_a_verdict_is_skipped_and_not_green(judged: bool) -> None:
    """No data does not mean that all is well."""
    with pytest.raises(AirflowSkipException):
        show(entry(Status.UNKNOWN, judged=judged))


def test_a_critical_stream_is_red_and_says_why() -> None:
    """The message of the failed task is the critical verdict, not the others."""
    lines = ("CRITICAL state_size: 6 GB is above 5 GB.", "OK memory_usage: fine")
    with pytest.raises(AirflowFailException, match="6 GB is above 5 GB") as caught:
        show(Entry(title="s", status=Status.CRITICAL, lines=lines, critical=lines[:1]))
    assert "memory_usage" not in str(caught.value)


def test_the_label_names_a_state_that_has_no_colour_of_its_own() -> None:
    assert [label(entry(status)) for status in (Status.OK, Status.WARNING, Status.UNKNOWN, Status.CRITICAL)] == [
        "s",
        "s: WARNING",
        "s: UNKNOWN",
        "s",
    ]
    assert label(entry(Status.UNKNOWN, judged=False)) == "s"
