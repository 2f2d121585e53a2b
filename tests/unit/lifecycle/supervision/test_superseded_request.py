"""A request whose first try died is carried out again, unless something newer than the request has happened."""

from __future__ import annotations

import pytest

from streamwarden.lifecycle.driver import DriverRecord
from streamwarden.lifecycle.supervision.stop import Desired, DesiredState, superseded

ASKED_AT = 1000.0


def driver(launched_at: float) -> DriverRecord:
    return DriverRecord(
        driver_id="s-1", stream="s", checkpoint="/c", token=1, folder="/f", launched_by="t", launched_at=launched_at
    )


def wanted(desired: Desired, changed_at: float) -> DesiredState:
    return DesiredState(stream="s", desired=desired, changed_by="ann", reason="moved", changed_at=changed_at)


@pytest.mark.parametrize(
    ("restart", "launched_at", "left_alone"),
    [(True, 999.0, False), (True, 1000.0, False), (True, 1001.0, True), (False, 1001.0, False)],
    ids=["older driver", "driver of that moment", "newer driver", "a stop means whichever driver there is"],
)
def test_a_restart_is_over_once_a_newer_driver_runs(restart: bool, launched_at: float, left_alone: bool) -> None:
    """Otherwise each try of the task that asked would restart the stream once more."""
    desired = Desired.RUNNING if restart else Desired.STOPPED
    why = superseded(ASKED_AT, desired=desired, restart=restart, state=None, latest=driver(launched_at))
    assert (why is not None) is left_alone
    if why is not None:
        assert "driver s-1 was launched since" in why


@pytest.mark.parametrize(
    ("desired", "changed_at", "left_alone"),
    [
        (Desired.RUNNING, 1001.0, True),
        (Desired.RUNNING, 999.0, False),
        (Desired.STOPPED, 1001.0, False),
    ],
    ids=["started since", "started before", "its own first try"],
)
def test_the_newest_desired_state_wins(desired: Desired, changed_at: float, left_alone: bool) -> None:
    """A stop that is tried again does not undo a start that came after it."""
    state = wanted(desired, changed_at)
    why = superseded(ASKED_AT, desired=Desired.STOPPED, restart=False, state=state, latest=driver(999.0))
    assert (why is not None) is left_alone
    if why is not None:
        assert "ann wanted it running since: moved" in why
