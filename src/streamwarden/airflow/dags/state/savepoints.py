"""DAGs that take savepoints by a schedule: one for each stream whose file has `savepoints.schedule`."""

from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from airflow.sdk import DAG, BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowSkipException

from streamwarden.airflow.connections import published
from streamwarden.airflow.dags.state.creating import LONGEST, author
from streamwarden.airflow.dags.timetables import at_its_times
from streamwarden.airflow.links import StreamPageLink
from streamwarden.airflow.notes import write_note
from streamwarden.airflow.notifying import report_failures
from streamwarden.airflow.projects import TAG, project_of
from streamwarden.airflow.workspaces import workspace
from streamwarden.errors import StreamwardenError
from streamwarden.redaction import redacted_text
from streamwarden.stream.spec import StreamSpec

SCHEDULED: Final = "savepoint_"
"""The stream's name follows."""

_DOC: Final = """\
### Savepoints of `{stream}`

Takes a savepoint, a complete copy of the checkpoint at the newest committed batch, while the stream runs. Then it
deletes the oldest ones that it took beyond the newest {keep}. It never deletes one that a person took.

| colour | meaning |
|---|---|
| green | A savepoint was taken. The note of the run names it. |
| pink (skipped) | The newest savepoint is whole and has the newest batch already. |
| red | No savepoint was taken, and none was deleted. The log says why, and what to do. |

On a shell: `streamwarden savepoint create {stream}`, and `streamwarden savepoint list {stream}`.
"""


def savepoint_dags(dag_file: str) -> dict[str, DAG]:
    """DAG id -> DAG. A stream whose file is broken has no schedule meanwhile: its own DAG shows what is wrong."""
    project = project_of(dag_file)
    streams = workspace(str(project)).catalog().streams.values()
    dags = (scheduled_dag(spec, project) for spec in streams if spec.savepoints.schedule is not None)
    return {dag.dag_id: dag for dag in dags}


def scheduled_dag(spec: StreamSpec, project: Path) -> DAG:
    """The DAG of one stream: one task for all of its queries."""
    with DAG(
        dag_id=f"{SCHEDULED}{spec.name}",
        description=f"Takes savepoints of {spec.name}",
        doc_md=_DOC.format(stream=spec.name, keep=spec.savepoints.keep),
        schedule=at_its_times(str(spec.savepoints.schedule)),
        catchup=False,
        max_active_runs=1,
        tags=sorted({TAG, "savepoint", *spec.tags}),
        default_args={
            "owner": spec.owner,
            "retries": 1,
            "retry_delay": timedelta(minutes=1),
            "execution_timeout": LONGEST,
            **report_failures(project),
        },
    ) as dag:
        ScheduledSavepointOperator(
            task_id="take", stream=spec.name, project=str(project), doc_md="Takes a savepoint of each query."
        )
    return dag


class ScheduledSavepointOperator(BaseOperator):
    """Takes a savepoint of each query of the stream, and deletes what is beyond `savepoints.keep`.

    The task fails if one cannot be taken, and is skipped if no query has a new batch.
    """

    operator_extra_links = (StreamPageLink(),)

    def __init__(self, *, stream: str, project: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stream = stream
        self.project = project

    def execute(self, context: Any) -> None:
        take_all(self.stream, self.project, context)


def take_all(stream: str, project: str, context: Any) -> None:
    """Take the savepoints that are due. One that fails keeps no other query from its own.

    Raises AirflowException with each error if one could not be taken, AirflowSkipException if no batch is new.
    """
    from streamwarden.services.savepoints.scheduled import take_scheduled

    done, failed = [], []
    for spec in workspace(project).queries(stream):
        by = author(project, spec, f"{SCHEDULED}{stream} (Airflow)", "scheduled")
        try:
            with published(spec.connections):
                done.append(take_scheduled(spec, by))
        except StreamwardenError as error:
            failed.append(f"{spec.name}: {redacted_text(str(error))}")
    sentence = "; ".join([*(result.sentence for result in done), *failed])
    write_note(context["task"], context, sentence, whole_run=True)
    if failed:
        raise AirflowException(sentence)
    if not any(result.taken for result in done):
        raise AirflowSkipException(sentence)
