"""`verify_savepoint`: compares every file of a savepoint with its manifest."""

from pathlib import Path
from typing import Any, Final

from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from streamwarden.airflow.connections import published
from streamwarden.airflow.dags.state.forms import FormOperator, form, refused_for_good, savepoint
from streamwarden.airflow.notes import write_note
from streamwarden.airflow.workspaces import workspace
from streamwarden.units import format_count, format_size

_DOC: Final = """\
Compares every file of a savepoint with its manifest, and changes nothing.

The run is red if a file is missing, was added, or has other bytes: its log names each. On a shell:
`streamwarden savepoint verify`.
"""


def verify_dag(project: Path) -> DAG:
    """`verify_savepoint`: one task."""
    with form("verify_savepoint", project, _DOC, {"savepoint": savepoint()}, max_active_runs=4) as dag:
        VerifyOperator(task_id="verify", project=str(project), doc_md="Reads all of the savepoint.")
    return dag


class VerifyOperator(FormOperator):
    """Verifies a savepoint of `stream`."""

    def execute(self, context: Any) -> None:
        from streamwarden.services.savepoints.saved import Savepoints
        from streamwarden.services.savepoints.verifying import verify

        params = context["params"]
        with refused_for_good():
            spec = workspace(self.project).query(params["stream"])
            with published(spec.connections):
                savepoints = Savepoints.of(spec)
                saved = savepoints.get(params["savepoint"])
                faults = verify(savepoints, saved)
        for fault in faults:
            self.log.error("%s: %s: %s; expected %s", fault.fault, fault.path, fault.observed, fault.expected)
        held = f"{format_count(len(saved.files), 'file')}, {format_size(saved.bytes)}"
        sentence = f"{saved.id}: all is as it was saved ({held})"
        if faults:
            sentence = f"{saved.id}: {format_count(len(faults), 'file')} differ from what was saved"
        write_note(self, context, sentence, whole_run=True)
        if faults:
            raise AirflowFailException(sentence)
        self.log.info("%s", sentence)
