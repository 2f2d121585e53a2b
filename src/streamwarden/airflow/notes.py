"""Notes on the runs and tasks of a stream: a person reads them in Airflow's pages without opening a log.

Airflow's grid marks what has a note. The mark on the cell of a task says that the stream does not run. The mark on the
bar of a DAG run says that its driver was restarted after a failure.
"""

from typing import Any

from airflow.sdk import BaseOperator

from streamwarden.airflow.unpausing import PATIENT, annotate
from streamwarden.drills.reporting.report import show_time
from streamwarden.lifecycle.supervision.stop import DesiredState
from streamwarden.lifecycle.supervision.supervisor import Launch, Wait


def write_note(
    operator: BaseOperator, context: Any, note: str, *, whole_run: bool = False, within: float = PATIENT
) -> None:
    """Write the note of this task, or of its DAG run. An empty note removes it.

    A note that Airflow refuses is in the log only: it must not stop a stream.
    """
    refusal = annotate(context["ti"], note, whole_run=whole_run, within=within)
    if refusal is not None:
        operator.log.info("the note %r was not written: %s", note, refusal)


def restarted(move: Launch, now: float) -> str:
    """For a driver that was launched after a failure."""
    return f"Restarted at {show_time(now)}, attempt {move.attempt}. The driver before ended: {move.reason}"


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
