"""`delete_keys`: what a person is asked, what is forgotten, and that Airflow never sees a key.

The store and the checkpoint are real, and Spark is not started: tests/spark/proofs deletes keys, and
tests/browser/test_state_page.py runs this DAG in Airflow.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from streamwarden.airflow.dags.state.operations import Checked
from streamwarden.errors import CheckpointError, StoreError, StreamwardenError
from streamwarden.lifecycle.surgery.rewriting import Found, Part
from streamwarden.lifecycle.time_travel.tables import StateTable, TableKind
from streamwarden.services.state import deleting
from streamwarden.services.state.deleting import Counted
from streamwarden.services.state.requested_deletions import Deletions
from streamwarden.services.workspace import Workspace
from support.airflow.change_runs import KEY, Run, ask_to_delete

PARTS = (Part(store="default", family="open", keys=2, rows=5), Part(store="default", family="timers", keys=1, rows=1))
FOUND = Found(fields=("key",), keys=2, parts=PARTS, by_store={"default": 2}, sample=((KEY,),))
COUNTED = Counted(
    operator=StateTable(operator=0, name="transformWithState", kind=TableKind.STORE, variable="default"),
    batch=13,
    found=FOUND,
)


def refuse(kind: type[Exception]) -> Any:
    """Stands for a step that fails, and whose error names the key."""

    def act(*_: Any, **__: Any) -> None:
        raise kind(f"no row with {KEY}")

    return act


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deleting, "count", lambda spec, wanted: COUNTED)


@pytest.mark.usefixtures("counted")
def test_the_request_for_an_approval_has_counts_and_no_key(space: Workspace, saved: str) -> None:
    run = Run(space, "deletion")
    run.check()
    asked = Checked(**run.left["check"])
    assert asked.subject == "Delete 2 keys with 6 rows from the state of the stream counted?"
    body = asked.body("ticket 812")
    for said in (
        "after batch 13",
        "store default, open: 2 keys with 5 rows",
        "store default, timers: 1 key with 1 row",
    ):
        assert said in body
    assert KEY not in json.dumps([run.left, run.params])
    (kept,) = Deletions(space.data, "counted").newest()
    assert (kept.wanted.keys.fields, kept.counted) == ((KEY,), COUNTED), "the page shows who may approve which they are"


@pytest.mark.usefixtures("counted")
@pytest.mark.parametrize("option", ["Approve", "Reject", None])
def test_what_nobody_approves_is_forgotten(
    space: Workspace, saved: str, monkeypatch: pytest.MonkeyPatch, option: str | None
) -> None:
    monkeypatch.setattr(ApprovalOperator, "execute_complete", lambda self, context, event: event)
    run = Run(space, "deletion")
    run.check()
    user = {"id": "7", "name": "bob"}
    event = {"chosen_options": [option], "responded_at": datetime.now(UTC), "responded_by_user": user}
    if option is None:
        with pytest.raises(AirflowSkipException, match="nobody approved the deletion"):
            run.approval.execute_complete(run.context, {"error": "time is up", "error_type": "timeout"})
    else:
        run.approval.execute_complete(run.context, event)
    assert len(Deletions(space.data, "counted").newest()) == (option == "Approve")


@pytest.mark.usefixtures("counted")
@pytest.mark.parametrize("kind", [CheckpointError, ValueError, OSError])
@pytest.mark.parametrize("step", ["count", "delete"])
def test_whatever_an_error_says_is_on_the_page_alone(
    space: Workspace,
    saved: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    notes: dict[str, list[str]],
    step: str,
    kind: type[Exception],
) -> None:
    monkeypatch.setattr(deleting, step, refuse(kind))
    run = Run(space, "deletion")
    with pytest.raises(AirflowFailException, match="no key of counted was deleted") as told:
        run.approved()
    assert KEY not in f"{capsys.readouterr()}{notes}{run.left}{_chain(told.value)}"
    (kept,) = Deletions(space.data, "counted").newest()
    assert kept.refusal is not None
    assert KEY in kept.refusal.observed


def _chain(error: BaseException | None) -> str:
    """The error with all that led to it, as a log shows it."""
    said = ""
    while error is not None:
        said += f"{error!r}{error.args}"
        error = error.__cause__ or error.__context__
    return said


def test_a_store_that_is_down_is_waited_for(space: Workspace, saved: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deleting, "count", refuse(StoreError))
    with pytest.raises(StreamwardenError):
        Run(space, "deletion").check()
    (kept,) = Deletions(space.data, "counted").newest()
    assert kept.refusal is None


def test_a_request_that_is_gone_is_refused(space: Workspace, saved: str) -> None:
    asked = ask_to_delete(space)
    Deletions(space.data, "counted").forget(asked.id)
    with pytest.raises(AirflowFailException, match="its time is over"):
        Run(space, "deletion", deletion=asked.id).check()
