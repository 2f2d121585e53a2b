"""The second task of a stream's DAG: a stream that was stopped on purpose does not look like one that runs."""

from typing import Any, Final

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from streamwarden.airflow.notes import stopped, write_note
from streamwarden.airflow.triggers import StoppedTrigger
from streamwarden.airflow.workspaces import workspace
from streamwarden.lifecycle.supervision.stop import Desired

STOPPED: Final = "stopped"
"""The task's id."""


class StoppedOperator(BaseOperator):
    """Defers while the stream is stopped on purpose. Its end ends the DAG run, and the next one launches a driver.

    It follows the task that runs the stream, which is skipped when the stream is stopped.
    """

    def __init__(self, *, stream: str, project: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stream = stream
        self.project = project

    def execute(self, context: Any, event: dict[str, Any] | None = None) -> None:
        state = workspace(self.project).store.stops.desired(self.stream)
        if state is None or state.desired is not Desired.STOPPED:
            raise AirflowSkipException(f"{self.stream} should run: the next run of this DAG launches a driver")
        note = stopped(self.stream, state)
        self.log.info("%s", note)
        write_note(self, context, note)
        self.defer(trigger=StoppedTrigger(stream=self.stream, project=self.project), method_name="execute")
