"""`restore_stream`: puts a stream back to a savepoint, after a person has approved it.

1. `check` verifies the savepoint and says what a restore would take back. Nothing is asked for a restore that would be
   refused.
2. `approval` waits for a person's answer.
3. `restore` stops the stream at a batch boundary if the form says so, puts it back, and starts it again. If the restore
   is refused, the stream is started again, too: it is as it was.
"""

import time
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG, BaseOperator, Param
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from streamwarden.airflow.connections import published
from streamwarden.airflow.dags.approvals import answer_of
from streamwarden.airflow.dags.controls import REASON, TRIED_AGAIN, asked_by, make_sure_it_is_supervised
from streamwarden.airflow.dags.state.forms import form, savepoint
from streamwarden.airflow.links import StreamPageLink
from streamwarden.airflow.notes import write_note
from streamwarden.airflow.triggers import DriverTrigger
from streamwarden.airflow.workspaces import workspace
from streamwarden.drills.reporting.report import show_time
from streamwarden.errors import LeaseHeld, StoreError, StreamwardenError
from streamwarden.lifecycle.exchanges.exchange import RESTORED
from streamwarden.lifecycle.queries import owner
from streamwarden.lifecycle.supervision.stop import Desired
from streamwarden.redaction import redacted_text
from streamwarden.services.workspace import Workspace
from streamwarden.stream.spec import StreamSpec
from streamwarden.units import format_count

_DOC: Final = """\
Puts a stream back to a savepoint: its checkpoint, and its output with it.

It verifies the savepoint, asks a person for approval, tries the savepoint on a fork, and then puts the stream back. The
previous checkpoint and the data files of later batches are kept. A stream that runs is refused, unless the form says
that it may be stopped at a batch boundary: then it is started again afterwards. A restore that was interrupted is
completed by another run. On a shell: `streamwarden savepoint restore`.
"""

_ANSWER_WITHIN: Final = timedelta(hours=24)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What the first task found; it travels to the others as a mapping.

    Args:
        remains: what the output cannot take back; the approval confirms it. Empty: everything is taken back.
        committed: the newest committed batch of the stream; None: its checkpoint has none.
        runs: whether a driver lives.
    """

    stream: str
    savepoint: str
    batch: int
    taken_at: float
    by: str
    reason: str
    output: str
    remains: str
    committed: int | None
    runs: bool

    @property
    def subject(self) -> str:
        return f"Put the stream {self.stream} back to the savepoint {self.savepoint}?"

    def body(self, why: str, *, stop: bool) -> str:
        """The request in Markdown."""
        later = max((self.committed if self.committed is not None else self.batch) - self.batch, 0)
        saved = f", {self.reason}" if self.reason else ""
        running = "It runs: it is stopped at a batch boundary first, and started again." if stop and self.runs else ""
        lines = [
            f"- **Savepoint**: batch {self.batch}, taken at {show_time(self.taken_at)} by {self.by}{saved}. It was "
            "verified.",
            f"- **Taken back**: {format_count(later, 'committed batch')} after it, up to batch {self.committed}; they "
            f"are read and written again. Output: {self.output}.",
            *([f"- **Remains**: {self.remains}. Whoever approves confirms that."] if self.remains else []),
            f"- **Why**: {why}",
            f"- **The stream**: {running or 'It is stopped.'} The previous checkpoint is kept.",
        ]
        return redacted_text("\n".join(lines)) + "\n"


class _RestoreTask(BaseOperator):
    """A task of a restore of `stream`."""

    template_fields = ("stream",)
    operator_extra_links = (StreamPageLink(),)

    def __init__(self, *, project: str, stream: str = "{{ params.stream }}", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stream = stream
        self.project = project


class CheckOperator(_RestoreTask):
    """Verifies the savepoint. Fails if a restore would be refused."""

    def execute(self, context: Any) -> dict[str, Any]:
        params = context["params"]
        try:
            found = _check(workspace(self.project), params["stream"], params["savepoint"])
        except StoreError:
            raise
        except StreamwardenError as error:
            raise AirflowFailException(str(error)) from error
        if found.runs and not params["stop_first"]:
            raise AirflowFailException(
                f"{found.stream} runs; next: stop it, or let this run stop it at a batch boundary first"
            )
        self.log.info("%s\n%s", found.subject, found.body(params["reason"], stop=params["stop_first"]))
        return asdict(found)


def _check(space: Workspace, name: str, wanted: str | None) -> Checked:
    """Raises CheckpointError, StoreError."""
    from streamwarden.adapters.storage.files import checkpoint_of
    from streamwarden.checkpoint.formats.logs import log_position
    from streamwarden.services.exchanges.journals import interrupted
    from streamwarden.services.savepoints.previewing import preview_restore
    from streamwarden.services.savepoints.saved import Savepoints

    spec = space.query(name)
    with published(spec.connections):
        saved = Savepoints.of(spec).get(wanted)
        begun = interrupted(spec)
        return Checked(
            stream=spec.name,
            savepoint=saved.id,
            batch=saved.batch,
            taken_at=saved.taken_at.timestamp(),
            by=saved.by,
            reason=saved.reason,
            output=str(spec.sink.place or spec.sink.kind),
            remains="" if begun is not None else preview_restore(spec, saved.id).remains,
            committed=log_position(checkpoint_of(spec)).committed,
            runs=_runs(space, name),
        )


def _runs(space: Workspace, name: str) -> bool:
    latest = space.store.drivers.latest(owner(name))
    return latest is not None and space.fleet.observe(latest.driver_id).alive


class RestoreApprovalOperator(ApprovalOperator):
    """Asks a person. Without an answer in time, or after a rejection, nothing is restored."""

    operator_extra_links = (StreamPageLink(),)

    def __init__(self, **kwargs: Any) -> None:
        # Airflow would take `execution_timeout` for the time to answer.
        super().__init__(
            subject="Put the stream back to a savepoint?",
            response_timeout=_ANSWER_WITHIN,
            execution_timeout=None,
            **kwargs,
        )

    def execute(self, context: Any) -> None:
        checked, params = _checked(context), context["params"]
        self.subject = checked.subject
        self.body = checked.body(params["reason"], stop=params["stop_first"])
        super().execute(context)

    def execute_complete(self, context: Any, event: dict[str, Any]) -> Any:
        answer = answer_of(event)
        if answer is None:
            raise AirflowSkipException("nobody approved the restore in time")
        self.log.info("%s %s the restore", answer.by, "approved" if answer.approved else "rejected")
        super().execute_complete(context, event)
        return {"by": answer.by, "approved": answer.approved}


class RestoreOperator(_RestoreTask):
    """Puts the stream back, in the name of the people who asked for it and approved it."""

    def execute(self, context: Any) -> None:
        by, name, space = _by(context), context["params"]["stream"], workspace(self.project)
        if context["ti"].try_number > 1 and _was_done(space, name, by, context):
            self.log.info("%s was put back by an earlier try", name)
            return self._start_again(space, by, context)
        if context["params"]["stop_first"] and _may_stop(space, owner(name), by):
            self._stop(space, owner(name), by, context["params"]["reason"])
        self.stopped(context)

    def _stop(self, space: Workspace, stream: str, by: str, reason: str) -> None:
        """Ask the driver to stop, and wait for it; return if none lives."""
        request = space.fleet.request_stop(stream, requested_by=by, reason=reason)
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
        """Restore the stream, which is stopped by now, and start it again if this run has stopped it."""
        from streamwarden.services.exchanges.journals import interrupted

        space, by = workspace(self.project), _by(context)
        spec = space.query(context["params"]["stream"])
        try:
            self._restore(space, spec, by, context)
        except (StoreError, LeaseHeld):
            raise  # tried again: the driver that was stopped returns its lease in a moment
        except StreamwardenError as error:
            if interrupted(spec) is None:  # otherwise no driver may start until the restore is complete
                self._start_again(space, by, context)
            raise AirflowFailException(str(error)) from error
        self._start_again(space, by, context)

    def _restore(self, space: Workspace, spec: StreamSpec, by: str, context: Any) -> None:
        from streamwarden.services.savepoints.describing import Author
        from streamwarden.services.savepoints.proving import proof_on_fork
        from streamwarden.services.savepoints.restoring import Request, restore

        params = context["params"]
        prove = proof_on_fork(space.fleet, spec, by) if params["try_first"] else None
        asked = Request(author=Author(by=by, reason=params["reason"]), confirmed=True, prove=prove)
        with published(spec.connections):
            done = restore(space.store, spec, _checked(context).savepoint, asked)
        sentence = f"{spec.name} is put back to {done.exchange.subject} and goes on after batch {done.exchange.batch}"
        write_note(self, context, sentence, whole_run=True)
        aside = done.aside or "there was none"
        self.log.info("%s; %s; output: %s; previous checkpoint: %s", sentence, done.exchange.proof, done.output, aside)

    def _start_again(self, space: Workspace, by: str, context: Any) -> None:
        """Start the stream if this run stopped it."""
        stream = owner(context["params"]["stream"])
        state = space.store.stops.desired(stream)
        if state is not None and state.desired is Desired.STOPPED and state.changed_by == by:
            space.fleet.set_running(stream, by, context["params"]["reason"])
            make_sure_it_is_supervised(stream, context)


def _may_stop(space: Workspace, stream: str, by: str) -> bool:
    """Whether the stream is wanted running, or was stopped by an earlier try: what a person stopped stays stopped."""
    state = space.store.stops.desired(stream)
    return state is None or state.desired is Desired.RUNNING or state.changed_by == by


def _was_done(space: Workspace, name: str, by: str, context: Any) -> bool:
    """Whether an earlier try of this run put the stream back, and died before it could say so."""
    since = context["dag_run"].start_date.timestamp()
    events = space.store.drivers.events_of(name, RESTORED)
    return any(event.at >= since and event.detail["by"] == by for event in events)


def _checked(context: Any) -> Checked:
    return Checked(**context["ti"].xcom_pull(task_ids="check"))


def _by(context: Any) -> str:
    """Who asked, and who approved. A task that was marked as successful has no approval."""
    answer = context["ti"].xcom_pull(task_ids="approval") or {}
    if not answer.get("approved"):
        raise AirflowFailException("nobody approved this restore; next: run the DAG again, and answer its request")
    return f"{asked_by(context)}, approved by {answer['by']}"


def restore_dag(project: Path) -> DAG:
    """`restore_stream`: check, approval, restore."""
    params = {
        "savepoint": savepoint(),
        "reason": REASON,
        "stop_first": Param(
            False,
            type="boolean",
            title="Stop it first",
            description="Stop the stream at a batch boundary, and start it again afterwards; otherwise a stream that "
            "runs is refused",
        ),
        "try_first": Param(
            True,
            type="boolean",
            title="Try it first",
            description="Run a fork of the savepoint first: its driver has to start and to commit a batch; otherwise "
            "nothing is restored",
        ),
    }
    with form("restore_stream", project, _DOC, params, max_active_runs=4) as dag:
        check = CheckOperator(task_id="check", project=str(project), doc_md="Verifies the savepoint.")
        approval = RestoreApprovalOperator(task_id="approval", doc_md="Asks a person.")
        restored = RestoreOperator(
            task_id="restore", project=str(project), doc_md="Puts the stream back.", **TRIED_AGAIN
        )
        check >> approval >> restored
    return dag
