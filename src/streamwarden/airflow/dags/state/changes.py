"""The DAG of an operation that changes a stream, after a person has approved it.

1. The first task says what would be done. Nothing is asked for an operation that would be refused.
2. `approval` waits for a person's answer.
3. The last task stops the stream at a batch boundary if the form says so, carries the operation out, and starts the
   stream again. If the operation is refused, the stream is started again, too: it is as it was.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from streamwarden.airflow.connections import published
from streamwarden.airflow.dags.approvals import answer_of
from streamwarden.airflow.dags.controls import TRIED_AGAIN, asked_by, make_sure_it_is_supervised
from streamwarden.airflow.dags.state.forms import FormOperator, form, refused_for_good
from streamwarden.airflow.dags.state.operations import Asked, Checked, Done, Operation
from streamwarden.airflow.links import StreamPageLink
from streamwarden.airflow.notes import write_note
from streamwarden.airflow.triggers import DriverTrigger
from streamwarden.airflow.workspaces import workspace
from streamwarden.errors import LeaseHeld, StoreError, StreamwardenError
from streamwarden.lifecycle.queries import owner
from streamwarden.lifecycle.supervision.stop import Desired
from streamwarden.redaction import redacted_text
from streamwarden.services.workspace import Workspace

_ANSWER_WITHIN: Final = timedelta(hours=24)


def change_dag(project: Path, operation: Operation) -> DAG:
    """Check, approval, and the operation itself."""
    with form(operation.dag_id, project, operation.doc, operation.fields(), max_active_runs=4) as dag:
        of: dict[str, Any] = {"operation": operation, "project": str(project)}
        check = CheckOperator(task_id=operation.check_name, doc_md="Says what would be done.", **of)
        approval = ChangeApprovalOperator(task_id="approval", doc_md="Asks a person.", **of)
        change = ChangeOperator(task_id=operation.name, doc_md="Does what was approved.", **of, **TRIED_AGAIN)
        check >> approval >> change
    return dag


class _OperationTask(FormOperator):
    """A task of an operation on `stream`."""

    def __init__(self, *, operation: Operation, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.operation = operation

    def _asked(self, context: Any, by: str) -> Asked:
        """Raises ConfigError, StoreError."""
        space, name = workspace(self.project), context["params"]["stream"]
        return Asked(
            space=space,
            spec=space.query(name),
            params=context["params"],
            by=by,
            runs=runs(space, name),
            tell=partial(self.log.info, "%s"),
            note=partial(write_note, self, context, whole_run=True),
            supervise=partial(make_sure_it_is_supervised, owner(name), context),
        )

    @contextmanager
    def _noted(self, context: Any) -> Iterator[None]:
        """Write a refusal as the note of the run: the stream's page shows it."""
        try:
            yield
        except StreamwardenError as error:
            write_note(self, context, redacted_text(str(error)), whole_run=True)
            raise


class CheckOperator(_OperationTask):
    """Fails if the operation would be refused."""

    def execute(self, context: Any) -> dict[str, Any]:
        with refused_for_good(), self._noted(context):
            asked = self._asked(context, asked_by(context))
            with published(asked.spec.connections):
                found = self.operation.checked(asked)
        self.log.info("%s\n%s", found.subject, found.body(context["params"]["reason"]))
        return asdict(found)


def runs(space: Workspace, name: str) -> bool:
    """Whether a driver of the stream lives."""
    latest = space.store.drivers.latest(owner(name))
    return latest is not None and space.fleet.observe(latest.driver_id).alive


class ChangeApprovalOperator(ApprovalOperator):
    """Asks a person. Without an answer in time, or after a rejection, nothing is done."""

    operator_extra_links = (StreamPageLink(),)

    def __init__(self, *, operation: Operation, project: str, **kwargs: Any) -> None:
        # Airflow would take `execution_timeout` for the time to answer.
        super().__init__(subject=operation.dag_id, response_timeout=_ANSWER_WITHIN, execution_timeout=None, **kwargs)
        self.operation = operation
        self.project = project

    def execute(self, context: Any) -> None:
        checked = _checked(self.operation, context)
        self.subject = checked.subject
        self.body = checked.body(context["params"]["reason"])
        super().execute(context)

    def execute_complete(self, context: Any, event: dict[str, Any]) -> Any:
        answer, name = answer_of(event), self.operation.name
        if answer is None or not answer.approved:
            self.operation.given_up(workspace(self.project), context["params"])
        if answer is None:
            raise AirflowSkipException(f"nobody approved the {name} in time")
        self.log.info("%s %s the %s", answer.by, "approved" if answer.approved else "rejected", name)
        super().execute_complete(context, event)
        return {"by": answer.by, "approved": answer.approved}


class ChangeOperator(_OperationTask):
    """Carries the operation out, in the name of the people who asked for it and approved it."""

    def execute(self, context: Any) -> None:
        asked, since = self._asked(context, self._by(context)), context["dag_run"].start_date.timestamp()
        if context["ti"].try_number > 1 and self.operation.was_done(asked, since):
            self.log.info("an earlier try has done it")
            return self._start_again(asked)
        if asked.params.get("stop_first") and _may_stop(asked):
            self._stop(asked)
        self.stopped(context)

    def _by(self, context: Any) -> str:
        """Who asked, and who approved. A task that was marked as successful has no approval."""
        answer = context["ti"].xcom_pull(task_ids="approval") or {}
        if not answer.get("approved"):
            raise AirflowFailException(
                f"nobody approved this {self.operation.name}; next: run the DAG again, and answer its request"
            )
        return f"{asked_by(context)}, approved by {answer['by']}"

    def _stop(self, asked: Asked) -> None:
        """Ask the driver to stop, and wait for it; return if none lives."""
        stream = owner(asked.spec.name)
        request = asked.space.fleet.request_stop(stream, requested_by=asked.by, reason=asked.params["reason"])
        if request is not None:
            self.defer(
                trigger=DriverTrigger(
                    stream=stream, project=self.project, driver_id=request.driver_id, supervises=False
                ),
                method_name="stopped",
                # The supervisor process sends SIGTERM and SIGKILL at the deadlines; the wait ends soon after them.
                timeout=timedelta(seconds=max(60.0, request.kill_deadline - time.time() + 60.0)),
            )

    def stopped(self, context: Any, event: dict[str, Any] | None = None) -> None:
        """Carry out, on a stream that is stopped by now, and start it again if this run has stopped it."""
        from streamwarden.services.exchanges.journals import interrupted

        asked, details = self._asked(context, self._by(context)), _checked(self.operation, context).details
        try:
            with self._noted(context):
                done = self._carry_out(asked, details)
        except (StoreError, LeaseHeld):
            raise  # tried again: the driver that was stopped returns its lease in a moment
        except StreamwardenError as error:
            if interrupted(asked.spec) is None:  # otherwise no driver may start until the exchange is complete
                self._start_again(asked)
            raise AirflowFailException(str(error)) from error
        self._start_again(asked)
        if not done.well:
            raise AirflowFailException(done.sentence)

    def _carry_out(self, asked: Asked, details: Mapping[str, Any]) -> Done:
        with published(asked.spec.connections):
            done = self.operation.carry_out(asked, details)
        asked.note(done.sentence)
        self.log.info("%s; %s", done.sentence, done.more)
        return done

    def _start_again(self, asked: Asked) -> None:
        """Start the stream if this run stopped it. What an operation stops by itself, it also starts."""
        stream = owner(asked.spec.name)
        state = asked.space.store.stops.desired(stream)
        if not self.operation.stops_first or state is None:
            return
        if state.desired is Desired.STOPPED and state.changed_by == asked.by:
            asked.space.fleet.set_running(stream, asked.by, asked.params["reason"])
            asked.supervise()


def _may_stop(asked: Asked) -> bool:
    """Whether the stream is wanted running, or was stopped by an earlier try: what a person stopped stays stopped."""
    state = asked.space.store.stops.desired(owner(asked.spec.name))
    return state is None or state.desired is Desired.RUNNING or state.changed_by == asked.by


def _checked(operation: Operation, context: Any) -> Checked:
    return Checked(**context["ti"].xcom_pull(task_ids=operation.check_name))
