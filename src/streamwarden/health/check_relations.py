"""The names by which checks declare what they may be a consequence of.

The table is `incidents.consequences.CAUSES`. It has no cycle: a cause is never a consequence of what it causes.
"""

from typing import Final

SUPERVISION: Final = "supervision"
"""The stream stays down: supervision gave up, no driver has run since, and the stream should be running. Like the other
names up to `DRILL` it is not a health check, so verdicts neither open nor resolve it."""

CONFIGURATION: Final = "configuration"
"""The stream's file is broken, so no check judges the stream."""

AIRFLOW: Final = "airflow"
"""A component of Airflow is down. The incident belongs to no stream: its stream is `EVERYWHERE`."""

EVALUATION: Final = "evaluation"
"""The health evaluation itself does not run. The incident belongs to no stream: its stream is `EVERYWHERE`."""

DRILL: Final = "drill_"
"""A drill of the stream failed or deviated; the drill's name follows. The drill's DAG has the same name."""

OVERDUE: Final = f"{DRILL}overdue"
"""Drills of the stream did not begin when their schedules were due. No drill can be called `overdue`."""

AUDIT_BALANCE: Final = "audit_balance"
"""An audit found that the stream's input is not in its output, in its state, or dropped as late. The next audit that
balances resolves it."""

ADVICE: Final = "advice_"
"""A setting of the stream costs more than it needs to; the topic of the advice follows. It has the status ADVICE, so
that it never notifies."""

EVERYWHERE: Final = "(airflow)"
"""The stream of an incident that concerns all streams. No stream can have this name."""

DRIVER_DOWN: Final = "driver_down"
PROGRESS_STALLED: Final = "progress_stalled"
RESTART_LOOP: Final = "restart_loop"
WATERMARK_AHEAD: Final = "watermark_ahead"

SERVICES: Final = ("broker_unreachable", "database_unreachable")
"""A server that the stream needs does not answer."""

FAILING: Final = ("input_lost", *SERVICES)
"""What makes drivers fail."""

NOT_RUNNING: Final = (*FAILING, SUPERVISION, DRIVER_DOWN)
"""Why no driver runs, the deepest cause first. `AIRFLOW` is reached through `DRIVER_DOWN`."""

RESOURCES_PENDING: Final = "resources_pending"

STANDING_STILL: Final = (*NOT_RUNNING, RESOURCES_PENDING, "query_ended", RESTART_LOOP)
"""Why nothing is committed."""


def is_of_the_run(check: str) -> bool:
    """Whether an incident says something about the running stream: a stop of the stream then resolves it."""
    return not check.startswith(DRILL) and check != AUDIT_BALANCE
