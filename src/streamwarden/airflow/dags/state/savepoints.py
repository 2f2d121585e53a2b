"""DAGs that take savepoints: one for each stream whose file has `savepoints.schedule`, and one with a form."""

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import DAG, BaseOperator, CronTriggerTimetable, Param
from airflow.sdk.exceptions import AirflowException, AirflowSkipException

from streamwarden.airflow.connections import published
from streamwarden.airflow.dags.controls import REASON, asked_by, stream_choice
from streamwarden.airflow.dags.state.forms import FormOperator, query_names
from streamwarden.airflow.links import StreamPageLink
from streamwarden.airflow.notes import write_note
from streamwarden.airflow.notifying import report_failures
from streamwarden.airflow.projects import START, TAG, project_of
from streamwarden.airflow.workspaces import workspace
from streamwarden.errors import StreamwardenError
from streamwarden.lifecycle.queries import owner
from streamwarden.redaction import redacted_text
from streamwarden.stream.spec import StreamSpec

if TYPE_CHECKING:
    from streamwarden.services.savepoints.describing import Author

FORM: Final = "create_savepoint"
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

_FORM_DOC: Final = """\
### Take a savepoint

Takes a complete copy of a stream's checkpoint at a committed batch, while the stream runs. Choose the stream and a
reason. No schedule deletes it. On a shell: `streamwarden savepoint create STREAM`.
"""

_LONGEST: Final = timedelta(hours=6)
"""For a copy to another disk or into a store. Links take seconds."""


def savepoint_dags(dag_file: str) -> dict[str, DAG]:
    """DAG id -> DAG. A stream whose file is broken has no schedule meanwhile: its own DAG shows what is wrong."""
    project = project_of(dag_file)
    streams = workspace(str(project)).catalog().streams.values()
    dags = [form_dag(project, sorted(query_names(streams)))]
    dags += [scheduled_dag(spec, project) for spec in streams if spec.savepoints.schedule is not None]
    return {dag.dag_id: dag for dag in dags}


def scheduled_dag(spec: StreamSpec, project: Path) -> DAG:
    """The DAG of one stream: one task for all of its queries."""
    with DAG(
        dag_id=f"{SCHEDULED}{spec.name}",
        description=f"Takes savepoints of {spec.name}",
        doc_md=_DOC.format(stream=spec.name, keep=spec.savepoints.keep),
        schedule=CronTriggerTimetable(str(spec.savepoints.schedule), timezone="UTC", run_immediately=False),
        catchup=False,
        max_active_runs=1,
        tags=sorted({TAG, "savepoint", *spec.tags}),
        default_args={"owner": spec.owner, **_tries(project)},
    ) as dag:
        ScheduledSavepointOperator(
            task_id="take", stream=spec.name, project=str(project), doc_md="Takes a savepoint of each query."
        )
    return dag


def form_dag(project: Path, names: list[str]) -> DAG:
    """The DAG with a form, by which a person takes one."""
    with DAG(
        dag_id=FORM,
        description="Takes a savepoint of a stream, which may run",
        doc_md=_FORM_DOC,
        schedule=None,
        start_date=START,
        catchup=False,
        is_paused_upon_creation=False,  # a run of a paused DAG is queued for ever
        max_active_runs=16,
        tags=sorted({TAG, "control"}),
        default_args={"owner": "streamwarden", **_tries(project)},
        params={
            "stream": stream_choice(names),
            "reason": REASON,
            "batch": Param(
                None,
                type=["null", "integer"],
                minimum=0,
                title="Batch",
                description="Copy the checkpoint as of this batch; empty: the newest committed one",
            ),
        },
    ) as dag:
        SavepointOperator(task_id="take", project=str(project), doc_md="Takes the savepoint.")
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


class SavepointOperator(FormOperator):
    """Takes the savepoint that the form asks for, and records the user who asked for it."""

    def execute(self, context: Any) -> None:
        from streamwarden.services.savepoints.creating import create

        params = context["params"]
        spec = workspace(self.project).query(params["stream"])
        author = _author(self.project, spec, asked_by(context), params["reason"])
        with published(spec.connections):
            savepoint = create(spec, params["batch"], author)
        write_note(context["task"], context, f"{savepoint.id} has batch {savepoint.batch}", whole_run=True)


def take_all(stream: str, project: str, context: Any) -> None:
    """Take the savepoints that are due. One that fails keeps no other query from its own.

    Raises AirflowException with each error if one could not be taken, AirflowSkipException if no batch is new.
    """
    from streamwarden.services.savepoints.scheduled import take_scheduled

    done, failed = [], []
    for spec in workspace(project).queries(stream):
        author = _author(project, spec, f"{SCHEDULED}{stream} (Airflow)", "scheduled")
        try:
            with published(spec.connections):
                done.append(take_scheduled(spec, author))
        except StreamwardenError as error:
            failed.append(f"{spec.name}: {redacted_text(str(error))}")
    sentence = "; ".join([*(result.sentence for result in done), *failed])
    write_note(context["task"], context, sentence, whole_run=True)
    if failed:
        raise AirflowException(sentence)
    if not any(result.taken for result in done):
        raise AirflowSkipException(sentence)


def _author(project: str, spec: StreamSpec, by: str, reason: str) -> "Author":
    from streamwarden.services.savepoints.describing import Author, recorded_spark

    store = workspace(project).store
    return Author(by=by, reason=reason, spark=recorded_spark(store, owner(spec.name)))


def _tries(project: Path) -> dict[str, Any]:
    return {
        "retries": 1,
        "retry_delay": timedelta(minutes=1),
        "execution_timeout": _LONGEST,
        **report_failures(project),
    }
