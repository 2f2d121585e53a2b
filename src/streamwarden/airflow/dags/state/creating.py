"""`create_savepoint`: takes a savepoint of a stream, for a person."""

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import DAG

from streamwarden.airflow.connections import published
from streamwarden.airflow.dags.controls import REASON, asked_by
from streamwarden.airflow.dags.state.forms import FormOperator, form, number, refused_for_good
from streamwarden.airflow.notes import write_note
from streamwarden.airflow.workspaces import workspace
from streamwarden.lifecycle.queries import owner
from streamwarden.stream.spec import StreamSpec

if TYPE_CHECKING:
    from streamwarden.services.savepoints.describing import Author

_DOC: Final = """\
Takes a complete copy of a stream's checkpoint at a committed batch, while the stream runs.

No schedule deletes it. On a shell: `streamwarden savepoint create`.
"""

LONGEST: Final = timedelta(hours=6)
"""For a copy to another disk or into a store. Links take seconds."""


def create_dag(project: Path) -> DAG:
    """`create_savepoint`: one task."""
    batch = number("Batch", "Copy the checkpoint as of this batch; empty: the newest committed one")
    with form("create_savepoint", project, _DOC, {"reason": REASON, "batch": batch}, max_active_runs=16) as dag:
        SavepointOperator(
            task_id="take", project=str(project), execution_timeout=LONGEST, doc_md="Takes the savepoint."
        )
    return dag


class SavepointOperator(FormOperator):
    """Takes the savepoint that the form asks for, and records the user who asked for it."""

    def execute(self, context: Any) -> None:
        from streamwarden.services.savepoints.creating import create

        params = context["params"]
        with refused_for_good():
            spec = workspace(self.project).query(params["stream"])
            with published(spec.connections):
                saved = create(spec, params["batch"], author(self.project, spec, asked_by(context), params["reason"]))
        write_note(self, context, f"{saved.id} has batch {saved.batch}", whole_run=True)


def author(project: str, spec: StreamSpec, by: str, reason: str) -> "Author":
    """Who takes a savepoint, and the Spark that runs the stream, as the store knows it."""
    from streamwarden.services.savepoints.describing import Author, recorded_spark

    store = workspace(project).store
    return Author(by=by, reason=reason, spark=recorded_spark(store, owner(spec.name)))
