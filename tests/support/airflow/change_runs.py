"""A run of the DAG of an operation that changes a stream, without Airflow: what its tasks are told, and leave."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from airflow.sdk.exceptions import TaskDeferred

from streamwarden.adapters.storage.files import checkpoint_of
from streamwarden.airflow.dags.state.changes import ChangeApprovalOperator, ChangeOperator, CheckOperator
from streamwarden.airflow.dags.state.dags import OPERATIONS
from streamwarden.airflow.dags.state.operations import Operation
from streamwarden.checkpoint.formats.logs import log_position
from streamwarden.lifecycle.driver import ExitKind, ExitRecord
from streamwarden.lifecycle.events import EventKind
from streamwarden.lifecycle.surgery.assignment import Assignment
from streamwarden.lifecycle.surgery.rewriting import Keys
from streamwarden.services.analysis.history import history
from streamwarden.services.state.assigning import Setting
from streamwarden.services.state.deleting import Deletion
from streamwarden.services.state.requested.assignments import Assignments
from streamwarden.services.state.requested.changes import Requests
from streamwarden.services.state.requested.deletions import Deletions
from streamwarden.services.workspace import Workspace
from support.airflow.project import living_driver

BATCH, NEWEST = 7, 13
NEW_JOB = "spark_jobs/counting_v2.py"
KEY, VALUE = "4711", "48151623"
BY = "ann (Airflow), approved by bob (7)"

FORMS: dict[str, dict[str, Any]] = {
    "restore": {"savepoint": None, "stop_first": False, "try_first": False},
    "rewind": {"batch": BATCH, "time": None, "stop_first": False, "try_first": False},
    "repartition": {"partitions": 4, "stop_first": False},
    "compaction": {"stop_first": False},
    "deletion": {"deletion": None, "stop_first": False},
    "assignment": {"assignment": None, "stop_first": False},
    "upgrade": {"job": NEW_JOB, "batches": 2, "accept": False, "beside": None, "watch": "0s", "rollback": True},
}


class Run:
    """A run of the DAG of an operation: what its tasks are told, and what they leave for one another."""

    def __init__(
        self, space: Workspace, name: str = "restore", *, tries: int = 1, get_dag: Any = None, **params: Any
    ) -> None:
        self.space, self.left = space, {}
        self.operation: Operation = next(operation for operation in OPERATIONS if operation.name == name)
        self.began = time.time()
        self.params = {"stream": "counted", "reason": "a wrong job", **FORMS[name], **params}
        if name in PRIVATE:
            self.params[name] = self.params[name] or ask(space, name)
        self.tries = tries
        self.get_dag = get_dag or (lambda dag_id: SimpleNamespace(is_paused=False))

    @property
    def context(self) -> dict[str, Any]:
        ti = SimpleNamespace(
            try_number=self.tries,
            xcom_pull=lambda task_ids: self.left.get(task_ids),
            get_dag=self.get_dag,
        )
        run = SimpleNamespace(start_date=datetime.fromtimestamp(self.began, UTC), triggering_user_name="ann")
        return {"params": self.params, "ti": ti, "dag_run": run, "task": None}

    def check(self) -> None:
        task = CheckOperator(task_id="check", operation=self.operation, project=str(self.space.project))
        self.left[self.operation.check_name] = task.execute(self.context)

    def approve(self) -> None:
        self.left["approval"] = {"by": "bob (7)", "approved": True}

    def change(self) -> str:
        """`done`, or `waits` for the end of a driver."""
        try:
            self.operator.execute(self.context)
        except TaskDeferred as deferred:
            return "waits" if deferred.method_name == "stopped" else deferred.method_name
        return "done"

    def approved(self) -> str:
        """All of its tasks."""
        self.check()
        self.approve()
        return self.change()

    @property
    def operator(self) -> ChangeOperator:
        return ChangeOperator(task_id="change", operation=self.operation, project=str(self.space.project))

    @property
    def approval(self) -> ChangeApprovalOperator:
        return ChangeApprovalOperator(task_id="approval", operation=self.operation, project=str(self.space.project))


PRIVATE: dict[str, tuple[type[Requests[Any, Any, Any]], Any]] = {
    "deletion": (Deletions, Deletion(keys=Keys(fields=(KEY,)))),
    "assignment": (Assignments, Setting(assignment=Assignment(keys=(KEY,), value=(VALUE,)))),
}
"""Operation whose run gets an id alone -> its requests, and what is asked for."""


def requests(space: Workspace, name: str) -> Requests[Any, Any, Any]:
    return PRIVATE[name][0](space.data, "counted")


def ask(space: Workspace, name: str) -> str:
    """What the stream's page does before it runs the DAG: the id of the request."""
    return str(requests(space, name).ask("ann", PRIVATE[name][1], time.time()).id)


def committed(space: Workspace) -> int | None:
    return log_position(checkpoint_of(space.stream("counted"))).committed


def drive(space: Workspace) -> str:
    """A living driver, which has no lease."""
    return living_driver(space, "counted-1", time.time() - 60).driver_id


def end(space: Workspace, driver_id: str) -> None:
    space.store.drivers.exited(driver_id, ExitRecord(kind=ExitKind.STOPPED, ended_at=time.time()))


def restored_by(space: Workspace) -> list[str]:
    return [event.who for event in history(space.store, "counted", 0) if event.kind is EventKind.RESTORED]
