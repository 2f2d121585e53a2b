"""The approval of a drill on a live stream: the task in which a person in Airflow answers."""

import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.exceptions import AirflowSkipException
from airflow.sdk.execution_time.hitl import HITLUser

from streamwarden.airflow.links import DrillReportLink, drill_run_id
from streamwarden.airflow.workspaces import workspace
from streamwarden.drills.engine import Engine
from streamwarden.drills.live.approval import Answer, body, subject
from streamwarden.drills.spec import DrillSpec

_AT_LEAST: Final = 1.0
"""Seconds. A task that is tried again after the deadline still asks, and is told at once that time is up."""


class DrillApprovalOperator(ApprovalOperator):
    """Asks a person, and writes the answer and the name of the person to the drill's journal.

    It is skipped if there is nothing to ask, or if no one answers in time. A rejection skips the drill, too. The engine
    decides what the steps after it do: they read the journal, not the state of this task.
    """

    operator_extra_links = (DrillReportLink(),)

    def __init__(self, *, drill: DrillSpec, project: str, **kwargs: Any) -> None:
        waits = timedelta(seconds=drill.waits)
        # Airflow would take `execution_timeout`, which the DAG sets for each task, for the time to answer.
        users = (
            [HITLUser(id=approver, name=approver) for approver in drill.production.approvers]
            if drill.production
            else []
        )
        super().__init__(
            assigned_users=users or None,
            subject=subject(drill),
            response_timeout=waits,
            execution_timeout=None,
            retries=3,
            **kwargs,
        )
        self.drill = drill.name
        self.project = project

    def execute(self, context: Any) -> None:
        state = self._engine().ask(drill_run_id(self.drill, context["run_id"]))
        if state is None or state.approval is None:
            raise AirflowSkipException("there is nothing to approve: the journal of the drill says why")
        self.body = body(state)
        self.response_timeout = timedelta(seconds=max(_AT_LEAST, state.approval.until - time.time()))
        super().execute(context)

    def execute_complete(self, context: Any, event: dict[str, Any]) -> Any:
        answer = answer_of(event)
        state = self._engine().answer(drill_run_id(self.drill, context["run_id"]), answer)
        message = state.halt.reason if state.halt is not None else f"approved by {answer.by if answer else 'nobody'}"
        self.log.info("drill %s: %s", self.drill, message)
        if answer is None:
            raise AirflowSkipException(message)
        return super().execute_complete(context, event)

    def _engine(self) -> Engine:
        return workspace(self.project).drill_engine()


def answer_of(event: Mapping[str, Any]) -> Answer | None:
    """A person's answer, as Airflow reports it; None if there is none."""
    user = event.get("responded_by_user")
    if "error" in event or not user:
        return None
    name, account = user.get("name"), user.get("id")
    by = str(name or account) if name == account or not (name and account) else f"{name} ({account})"
    approved = list(event["chosen_options"]) == [ApprovalOperator.APPROVE]
    return Answer(approved=approved, by=by, at=event["responded_at"].timestamp())
