"""One DAG for each stream whose file has `audit.schedule`: it balances the stream's books while the stream runs."""

import time
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from airflow.sdk import DAG, BaseOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from streamwarden.airflow.connections import published
from streamwarden.airflow.dags.timetables import at_its_times
from streamwarden.airflow.links import StreamPageLink
from streamwarden.airflow.notes import write_note
from streamwarden.airflow.notifying import report_failures
from streamwarden.airflow.projects import TAG, project_of
from streamwarden.airflow.workspaces import workspace
from streamwarden.stream.spec import StreamSpec

_DOC: Final = """\
### Audit of `{stream}`

Balances the books of the committed batches while the stream runs: input = output + state + dropped as late, for each
group. It reads with a low priority and changes nothing of the stream.

| colour | meaning |
|---|---|
| green | The books balance. |
| red | They do not balance. The stream has an incident `audit_balance`, and the log names the evidence. |
| pink (skipped) | The audit cannot balance this stream. The log says why. |

You may run it by hand at any time, or on a shell: `streamwarden audit {stream}`.
"""

_SLACK: Final = timedelta(minutes=5)


def audit_dags(dag_file: str) -> dict[str, DAG]:
    """DAG id -> DAG. A stream whose file is broken has none meanwhile: its own DAG shows what is wrong."""
    project = project_of(dag_file)
    streams = workspace(str(project)).catalog().streams
    dags = [audit_dag(spec, project) for spec in streams.values() if spec.audit.schedule is not None]
    return {dag.dag_id: dag for dag in dags}


def audit_dag(spec: StreamSpec, project: Path) -> DAG:
    """The DAG of one stream: one task."""
    from streamwarden.services.auditing.auditing import longest

    with DAG(
        dag_id=f"audit_{spec.name}",
        description=f"Balances the books of {spec.name}",
        doc_md=_DOC.format(stream=spec.name),
        schedule=at_its_times(str(spec.audit.schedule)),
        catchup=False,
        max_active_runs=1,
        tags=sorted({TAG, "audit", *spec.tags}),
        default_args={
            "owner": spec.owner,
            "retries": 1,
            "retry_delay": timedelta(minutes=1),
            "execution_timeout": timedelta(seconds=longest(spec.audit.share)) + _SLACK,
            **report_failures(project),
        },
    ) as dag:
        AuditOperator(task_id="balance", stream=spec.name, project=str(project), doc_md="Balances the books.")
    return dag


class AuditOperator(BaseOperator):
    """Balances the books of the stream `stream`."""

    operator_extra_links = (StreamPageLink(),)

    def __init__(self, *, stream: str, project: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stream = stream
        self.project = project

    def execute(self, context: Any) -> None:
        run_audit(self.stream, self.project, context)


def run_audit(stream: str, project: str, context: Any) -> None:
    """Audit the stream and record the result, also as the note of the DAG run, which the pages show.

    Raises AirflowFailException if its books do not balance, AirflowSkipException if they cannot be balanced;
    StoreError, VerificationError, ProcessError.
    """
    from streamwarden.services.auditing.auditing import audit
    from streamwarden.services.auditing.records import record
    from streamwarden.verification.comparing.balance import Outcome

    space = workspace(project)
    spec = space.stream(stream)
    with published(spec.connections):
        result = audit(spec, last=spec.audit.batches, share=spec.audit.share)
    write_note(context["task"], context, result.sentence, whole_run=True)
    print(f"{result.sentence}; evidence: {record(result, space.data, space.store, time.time())}")
    if result.outcome is Outcome.UNBALANCED:
        raise AirflowFailException(result.sentence)
    if result.outcome is Outcome.UNDECIDED:
        raise AirflowSkipException(result.sentence)
