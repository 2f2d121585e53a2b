"""What the health DAG shows of many streams, and what makes a task red."""

from __future__ import annotations

import pytest
from airflow.sdk.exceptions import AirflowFailException

from streamwarden.airflow.health import fold, show


def entries(**statuses: str) -> list[dict[str, object]]:
    return [{"stream": name, "status": status, "lines": [f"{status} a"]} for name, status in statuses.items()]


def test_the_worst_streams_come_first() -> None:
    """CRITICAL, WARNING, UNKNOWN, OK; by name among equals."""
    shown = fold(entries(d="OK", c="UNKNOWN", b="WARNING", e="CRITICAL", a="CRITICAL"))
    assert [each["stream"] for each in shown] == ["a", "e", "b", "c", "d"]


def test_healthy_streams_beyond_the_visible_ones_are_folded_into_one() -> None:
    """Sixty healthy streams: fifty tasks of their own, and one that names the other ten."""
    shown = fold(entries(**{f"s{index:02d}": "OK" for index in range(60)}))
    assert len(shown) == 51
    assert shown[-1]["stream"] == "10 more healthy streams"
    assert shown[-1]["lines"] == [f"s{index:02d}" for index in range(50, 60)]


def test_a_stream_that_is_not_healthy_is_never_folded() -> None:
    """Two hundred bad ones: two hundred tasks."""
    shown = fold(entries(**{f"s{index:03d}": "WARNING" for index in range(200)}))
    assert len(shown) == 200


def test_no_stream_at_all_shows_nothing() -> None:
    """An empty project is no error."""
    assert fold([]) == []


@pytest.mark.parametrize("status", ["OK", "UNKNOWN", "WARNING"])
def test_a_stream_that_is_not_critical_is_green(status: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Its verdicts stand in the log."""
    show({"stream": "s", "status": status, "lines": [f"{status} state_size: …"]})
    assert capsys.readouterr().out == f"{status} state_size: …\n"


def test_a_critical_stream_is_red_and_says_why() -> None:
    """The message of the failed task is the critical verdict, not the others."""
    lines = ["CRITICAL state_size: 6 GB is above 5 GB.", "OK memory_usage: fine"]
    with pytest.raises(AirflowFailException, match="6 GB is above 5 GB") as caught:
        show({"stream": "s", "status": "CRITICAL", "lines": lines, "critical": lines[:1]})
    assert "memory_usage" not in str(caught.value)
