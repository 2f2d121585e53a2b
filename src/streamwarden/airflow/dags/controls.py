"""The verbs of a stream as DAGs with a form: stop, restart, start."""

import logging
import time
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from airflow.sdk import DAG, BaseOperator, Param
from airflow.sdk.exceptions import AirflowFailException

from streamwarden.adapters.airflow_server import PREFIX
from streamwarden.airflow.links import StreamPageLink
from streamwarden.airflow.notifying import report_failures
from streamwarden.airflow.projects import START, TAG, project_of
from streamwarden.airflow.triggers import DriverTrigger
from streamwarden.airflow.unpausing import unpause
from streamwarden.airflow.workspaces import catalog_of, workspace
from streamwarden.errors import StoreError, StreamwardenError
from streamwarden.lifecycle.supervision.restart import describe
from streamwarden.lifecycle.supervision.stop import Desired, superseded
from streamwarden.services.workspace import Workspace

_log = logging.getLogger(__name__)

VERBS: Final = {
    "stop": "Stops a stream at a batch boundary and keeps it stopped until a user starts it again.",
    "restart": "Stops a stream at a batch boundary and starts it again at once, with its YAML file as it is now.",
    "start": "Lets a stream run that was stopped or left down, with a fresh restart budget.",
}


_BEGIN_ANEW: Final = {
    "begin_anew": Param(
        None,
        type=["null", "string"],
        maxLength=500,
        title="Begin anew",
        description="Only after a refused start: why the stream may begin with its checkpoint as it is, although that "
        "contradicts the store or the output. It is recorded.",
    )
}

REASON: Final = Param("asked in Airflow", type="string", minLength=1, maxLength=500, title="Reason")

TRIED_AGAIN: Final[dict[str, Any]] = {"retries": 24, "retry_delay": timedelta(seconds=5)}
"""Bridges some minutes without the store or Airflow's own API; a request is still carried out only once."""


class ControlOperator(BaseOperator):
    """Carries out a verb on the stream that the form names, and records the user who asked for it.

    `stream` is a template for the link of the task, which is made after any try, also one that began deferred.
    """

    template_fields = ("stream",)
    operator_extra_links = (StreamPageLink(),)

    def __init__(self, *, verb: str, project: str, stream: str = "{{ params.stream }}", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stream = stream
        self.verb = verb
        self.project = project

    def execute(self, context: Any) -> None:
        stream, reason, who = context["params"]["stream"], context["params"]["reason"], asked_by(context)
        try:
            space = workspace(self.project)
            if context["ti"].try_number > 1 and (since := self._superseded(space, stream, context)):
                self.log.info("%s of %s was tried before and is not asked for again: %s", self.verb, stream, since)
                return
            if self.verb == "start":
                space.fleet.set_running(stream, who, reason, context["params"].get("begin_anew"))
            else:
                if self.verb == "restart":  # nothing else would start it again
                    make_sure_it_is_supervised(stream, context)
                request = space.fleet.request_stop(
                    stream, requested_by=who, reason=reason, restart=self.verb == "restart"
                )
        except StoreError:
            raise  # tried again: the request may be recorded in part
        except StreamwardenError as error:
            raise AirflowFailException(f"{self.verb} of {stream}: {error}") from error
        self.log.info("%s of %s, asked by %s: %s", self.verb, stream, who, reason)
        if self.verb == "start":
            make_sure_it_is_supervised(stream, context)
        elif request is None:
            self.log.info("%s has no living driver", stream)
        else:
            self.defer(
                trigger=DriverTrigger(
                    stream=stream, project=self.project, driver_id=request.driver_id, supervises=False
                ),
                method_name="ended",
                # The supervisor process sends SIGTERM and SIGKILL at the deadlines; the wait ends soon after them.
                timeout=timedelta(seconds=max(60.0, request.kill_deadline - time.time() + 60.0)),
            )

    def ended(self, context: Any, event: dict[str, Any]) -> None:
        record = workspace(self.project).store.drivers.get(event["driver_id"])
        if record is not None and record.exit is not None:
            self.log.info("driver %s ended: %s", record.driver_id, describe(record.exit))

    def _superseded(self, space: Workspace, stream: str, context: Any) -> str | None:
        """Event since the start of this run that makes another try unnecessary."""
        return superseded(
            context["dag_run"].start_date.timestamp(),
            desired=Desired.STOPPED if self.verb == "stop" else Desired.RUNNING,
            restart=self.verb == "restart",
            state=space.store.stops.desired(stream),
            latest=space.store.drivers.latest(stream),
        )


def control_dags(dag_file: str) -> dict[str, DAG]:
    """`stop_stream`, `restart_stream`, `start_stream`. A stream that runs without a file can be stopped, too."""
    project = project_of(dag_file)
    names = catalog_of(workspace(str(project))).names
    return {f"{verb}_stream": _dag(verb, project, names) for verb in VERBS}


def stream_choice(names: list[str]) -> Param:
    """The field of a form that names a stream. It has no default: the form insists on a choice, so that no user stops
    the first stream of the list by accident."""
    choice: dict[str, Any] = {"enum": names} if names else {}
    return Param(type="string", title="Stream", description="The stream to act on", **choice)


def _dag(verb: str, project: Path, names: list[str]) -> DAG:
    with DAG(
        dag_id=f"{verb}_stream",
        description=VERBS[verb],
        doc_md=f"### {verb} a stream\n\n{VERBS[verb]}\n\nTrigger this DAG and choose the stream and a reason.",
        schedule=None,
        start_date=START,
        catchup=False,
        is_paused_upon_creation=False,  # a run of a paused DAG is queued for ever, and a stop must not wait
        max_active_runs=16,
        tags=sorted({TAG, "control"}),
        default_args={"owner": "streamwarden", **TRIED_AGAIN, **report_failures(project)},
        params={
            "stream": stream_choice(names),
            "reason": REASON,
            **(_BEGIN_ANEW if verb == "start" else {}),
        },
    ) as dag:
        ControlOperator(task_id=verb, verb=verb, project=str(project))
    return dag


def make_sure_it_is_supervised(stream: str, context: Any) -> None:
    """Unpause the stream's DAG, which launches its drivers. Raises AirflowFailException if that is refused."""
    dag_id = f"{PREFIX}{stream}"
    if not context["ti"].get_dag(dag_id).is_paused:
        return
    refusal = unpause(dag_id)
    if refusal is not None:
        raise AirflowFailException(
            f"{stream} is wanted running, but its DAG {dag_id} is paused and could not be unpaused ({refusal}); "
            f"next: unpause {dag_id} in the UI"
        )
    _log.info("unpaused %s", dag_id)


def asked_by(context: Any) -> str:
    """The user who triggered the run, where Airflow says so."""
    user = getattr(context["dag_run"], "triggering_user_name", None)
    return f"{user or 'somebody'} (Airflow)"
