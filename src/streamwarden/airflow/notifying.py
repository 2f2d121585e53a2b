"""Sends notifications from Airflow's processes, and reports tasks of ours that fail."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseNotifier

from streamwarden.airflow.unpausing import own_url

if TYPE_CHECKING:
    from streamwarden.health.verdict import Verdict
    from streamwarden.services.notifying.messages import Notification
    from streamwarden.services.notifying.sending import SendReport
    from streamwarden.services.workspace import Workspace


def send_now(
    space: Workspace, context: Mapping[str, Any], now: float, events: Sequence[Notification] = ()
) -> SendReport:
    """Send what is due, through Apprise and through Airflow's notifiers. Raises StoreError."""
    from streamwarden.services.notifying.notifiers import airflow_channels, apprise_channels
    from streamwarden.services.notifying.watching import notify, usable_settings

    settings, broken = usable_settings(space.project)
    channels = (*apprise_channels(), *airflow_channels(settings, context))
    return notify(space, channels, settings, now, airflow=own_url(), events=events, broken=broken)


def report_failures(project: Path | str) -> dict[str, Any]:
    """Default arguments for tasks whose failure is an event: each failed run is reported once."""
    return {"on_failure_callback": FailureNotifier(str(project))}


def report_outages(project: Path | str) -> dict[str, Any]:
    """Default arguments for tasks that run again and again: a failure is an incident until the task succeeds."""
    return {"on_failure_callback": OutageNotifier(str(project)), "on_success_callback": RecoveryNotifier(str(project))}


class StreamwardenNotifier(BaseNotifier):
    """For callbacks of your own DAGs and tasks: sends what is due now instead of in the next run of the health DAG.

    Airflow may run a callback twice and in several processes. Each message is claimed in the store and sent once.
    """

    def __init__(self, project: str) -> None:
        super().__init__()
        self.project = project

    def notify(self, context: Any) -> None:
        from streamwarden.airflow.workspaces import workspace

        space, now = workspace(self.project), time.time()
        report = send_now(space, context, now, self.prepare(space, context, now))
        self.log.info("%d notifications sent, %d refused", len(report.sent), len(report.refused))

    def prepare(self, space: Workspace, context: Any, now: float) -> Sequence[Notification]:
        """Update incidents before anything is sent; returns further messages."""
        return ()


class FailureNotifier(StreamwardenNotifier):
    """Reports a task that failed for good: the incident that explains the failure, or else the failed run itself."""

    def prepare(self, space: Workspace, context: Any, now: float) -> Sequence[Notification]:
        from streamwarden.config.loading import load_drills
        from streamwarden.health.check_relations import DRILL
        from streamwarden.services.incidents.drill_incidents import follow_drills
        from streamwarden.services.notifying.links import Links, run_url
        from streamwarden.services.notifying.messages import run_message

        ti = context["ti"]
        if ti.dag_id.startswith(DRILL):
            follow_drills(space.store, *load_drills(space.project), now)
        if _is_explained(space, ti.dag_id):
            return ()
        base = own_url()
        links = Links(page=f"{base}/dags/{ti.dag_id}", run=run_url(base, ti.dag_id, ti.run_id), log=ti.log_url)
        return (run_message(ti.dag_id, ti.run_id, _reason(context), links, _stream_of(space, ti.dag_id)),)


class OutageNotifier(StreamwardenNotifier):
    """Opens an incident: a task that runs again and again has failed."""

    def prepare(self, space: Workspace, context: Any, now: float) -> Sequence[Notification]:
        from streamwarden.services.incidents.incident_keeper import keep

        keep(space.store, [_verdict(context, now, failed=True)], now)
        return ()


class RecoveryNotifier(StreamwardenNotifier):
    """Resolves the incident of `OutageNotifier`. The next run of the health DAG sends the end."""

    def notify(self, context: Any) -> None:
        from streamwarden.airflow.workspaces import workspace
        from streamwarden.services.incidents.incident_keeper import keep

        now = time.time()
        keep(workspace(self.project).store, [_verdict(context, now, failed=False)], now)


def _stream_of(space: Workspace, dag_id: str) -> str:
    """The stream whose DAG, drill or audit this is; `EVERYWHERE` for a DAG that belongs to no stream."""
    from streamwarden.health.check_relations import EVERYWHERE

    kind, _, name = dag_id.partition("_")
    if kind == "drill":
        drill = space.drills().get(name)
        return EVERYWHERE if drill is None else drill.stream
    return name if kind in ("stream", "audit") else EVERYWHERE


def _is_explained(space: Workspace, dag_id: str) -> bool:
    """Whether an open incident says why a run of this DAG failed: the stream stays down, or the drill did not pass."""
    from streamwarden.health.check_relations import SUPERVISION

    down = dag_id.removeprefix("stream_"), SUPERVISION
    return any(
        down == (incident.stream, incident.check) or incident.check == dag_id
        for incident in space.store.incidents.open()
    )


def _verdict(context: Any, now: float, *, failed: bool) -> Verdict:
    from streamwarden.health.check_relations import EVALUATION, EVERYWHERE
    from streamwarden.health.verdict import Status, Verdict

    ti = context["ti"]
    return Verdict(
        stream=EVERYWHERE,
        check=EVALUATION if ti.task_id == "evaluate" else f"{ti.dag_id}_{ti.task_id}",
        status=Status.CRITICAL if failed else Status.OK,
        at=now,
        reason=f"the task {ti.task_id} of the DAG {ti.dag_id} "
        + (f"failed: {_reason(context)}" if failed else "works"),
        advice="read the log of the task" if failed else "",
    )


def _reason(context: Any) -> str:
    return str(context.get("exception") or "its log says why").partition("\n")[0]
