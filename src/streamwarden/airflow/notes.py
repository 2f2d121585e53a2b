"""Notes on the tasks of a stream: what a person reads in Airflow's grid and task page without opening a log.

The grid marks the cell of a task that has a note. A task has none while nothing happened to its driver.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseOperator

from streamwarden.airflow.unpausing import annotate
from streamwarden.drills.report import show_time
from streamwarden.lifecycle.stop import DesiredState
from streamwarden.lifecycle.supervisor import Launch, Wait, Watch


def write_note(operator: BaseOperator, context: Any, note: str) -> None:
    """Write the note of this task. A note that Airflow refuses is in the log only: it must not stop a stream."""
    refusal = annotate(context["ti"], note)
    if refusal is not None:
        operator.log.info("the note %r was not written: %s", note, refusal)


def runs_again(move: Launch | Watch, now: float) -> str:
    """For a driver that was launched after a failure, or found after a back-off."""
    if isinstance(move, Launch) and move.attempt:
        return f"Restarted at {show_time(now)}, attempt {move.attempt}. The driver before ended: {move.reason}"
    return f"Runs again since {show_time(now)}"


def waiting(move: Wait) -> str:
    """For the back-off, in which the task is deferred as it is for a running driver."""
    return f"DOWN until {show_time(move.until)}: restart {move.attempt} is due then. The driver ended: {move.reason}"


def down(reason: str, next_step: str) -> str:
    """For a stream that stays down."""
    return f"DOWN: {reason}" + (f"; next: {next_step}" if next_step else "")


def stopped(stream: str, state: DesiredState) -> str:
    """For a stream that was stopped on purpose."""
    return (
        f"{stream} was stopped by {state.changed_by} at {show_time(state.changed_at)}: {state.reason}. "
        f"To start it, use the DAG start_stream or `streamwarden start {stream}`"
    )
