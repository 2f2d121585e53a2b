"""A drill's run id is made from Airflow's run id, so that all its tasks and tries speak of one run."""

from __future__ import annotations

import pytest

from streamwarden.airflow.links import drill_run_id
from streamwarden.drills.runs import RUN_ID

RUNS = (
    "scheduled__2026-11-21T14:11:05.464473+00:00",
    "manual__2026-11-21T14:11:05.464473+00:00",
    "manual__2026-11-21T14:11:05.464474+00:00",
    "../../etc/passwd",
    "what a person typed; DROP TABLE",
    "",
)


@pytest.mark.parametrize("run", RUNS)
def test_an_id_is_safe_and_repeatable(run: str) -> None:
    """Whatever the run is called, the id is a safe file name, and the same each time."""
    assert RUN_ID.fullmatch(drill_run_id("kill_driver", run))
    assert drill_run_id("kill_driver", run) == drill_run_id("kill_driver", run)


def test_two_runs_never_share_an_id() -> None:
    """Also when they differ by a microsecond or only in the part that is cut."""
    assert len({drill_run_id("kill_driver", run) for run in RUNS}) == len(RUNS)


def test_the_time_can_be_read_in_it() -> None:
    """Sorted by name is sorted by time."""
    assert drill_run_id("kill_driver", RUNS[0]).startswith("kill_driver-20261121T141105-")
