"""`delete_keys` and `set_value`: what a person is asked, what is forgotten, and that Airflow sees no key and no value.

The store and the checkpoint are real, and Spark is not started: tests/spark/proofs deletes keys and sets values, and
tests/browser/test_state_page.py runs these DAGs in Airflow.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from streamwarden.airflow.dags.state.operations import Checked
from streamwarden.errors import CheckpointError, StoreError, StreamwardenError
from streamwarden.lifecycle.surgery.assignment import Assigned
from streamwarden.lifecycle.surgery.rewriting import Found, Part
from streamwarden.lifecycle.time_travel.answers import Entry
from streamwarden.lifecycle.time_travel.bounds import LONGEST
from streamwarden.lifecycle.time_travel.tables import StateTable, TableKind
from streamwarden.services.state import assigning, deleting
from streamwarden.services.state.assigning import ValueChange
from streamwarden.services.state.deleting import Counted
from streamwarden.services.workspace import Workspace
from support.airflow.change_runs import KEY, PRIVATE, VALUE, Run, ask, requests

PARTS = (Part(store="default", family="open", keys=2, rows=5), Part(store="default", family="timers", keys=1, rows=1))
FOUND = Found(fields=("key",), keys=2, parts=PARTS, by_store={"default": 2}, sample=((KEY,),))
STORE = StateTable(operator=0, name="transformWithState", kind=TableKind.STORE, variable="default")
COUNTED = Counted(operator=STORE, batch=13, found=FOUND)
ROW = Entry(partition=0, key=(KEY,), value=f'{{"n":"{VALUE}"}}')
CHANGE = ValueChange(
    table=replace(STORE, kind=TableKind.VALUE, variable="count"),
    batch=13,
    assigned=Assigned(fields=("key",), before=ROW, after=ROW, proven=5),
)


@dataclass(frozen=True)
class Kind:
    """What one of them calls, and what it says."""

    module: Any
    planning: str
    making: str
    planned: Any
    subject: str
    said: tuple[str, ...]
    nothing: str


KINDS: Mapping[str, Kind] = {
    "deletion": Kind(
        deleting,
        "count",
        "delete",
        COUNTED,
        "Delete 2 keys with 6 rows from the state of the stream counted?",
        ("after batch 13", "store default, open: 2 keys with 5 rows", "store default, timers: 1 key with 1 row"),
        "no key was deleted from the state of counted",
    ),
    "assignment": Kind(
        assigning,
        "plan",
        "assign",
        CHANGE,
        "Set a value of 1 key in the state of the stream counted?",
        (
            "operator 0 (transformWithState), count, after batch 13: the key has another value there",
            "5 stored values encoded again to the same bytes",
        ),
        "no value was set in the state of counted",
    ),
}
each_kind = pytest.mark.parametrize("name", KINDS)


def refuse(kind: type[Exception]) -> Any:
    """Stands for a step that fails, and whose error names key and value."""

    def act(*_: Any, **__: Any) -> None:
        raise kind(f"no row with {KEY} and {VALUE}")

    return act


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in KINDS.values():
        monkeypatch.setattr(kind.module, kind.planning, lambda spec, wanted, found=kind.planned: found)


def test_every_operation_of_which_airflow_gets_an_id_alone_is_tried() -> None:
    assert PRIVATE.keys() == KINDS.keys()


@each_kind
@pytest.mark.usefixtures("planned")
def test_the_request_for_an_approval_has_neither_key_nor_value(space: Workspace, saved: str, name: str) -> None:
    run = Run(space, name)
    run.check()
    asked = Checked(**run.left["check"])
    assert asked.subject == KINDS[name].subject
    body = asked.body("ticket 812")
    for said in KINDS[name].said:
        assert said in body
    kept_by_airflow = json.dumps([run.left, run.params])
    assert KEY not in kept_by_airflow
    assert VALUE not in kept_by_airflow
    (kept,) = requests(space, name).newest()
    assert (kept.wanted, kept.planned) == (PRIVATE[name][1], KINDS[name].planned), "the page shows who may approve them"


def test_a_key_that_gets_its_first_value_is_told_from_one_that_gets_another(
    space: Workspace, saved: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    added = replace(CHANGE, assigned=replace(CHANGE.assigned, before=None))
    monkeypatch.setattr(assigning, "plan", lambda spec, wanted: added)
    run = Run(space, "assignment")
    run.check()
    assert "count, after batch 13: the key has no value there, and gets one" in run.left["check"]["said"]["Row"]


def test_a_long_value_is_cut_for_the_page_and_set_whole(
    space: Workspace, saved: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = replace(ROW, value=json.dumps({"n": "9" * 3 * LONGEST}))
    change = replace(CHANGE, assigned=replace(CHANGE.assigned, before=long, after=long))
    monkeypatch.setattr(assigning, "plan", lambda spec, wanted: change)
    Run(space, "assignment").check()
    (kept,) = requests(space, "assignment").newest()
    shown = kept.planned.assigned
    assert all(len(entry.value) < 2 * LONGEST for entry in (shown.before, shown.after))
    assert kept.wanted == PRIVATE["assignment"][1]


@each_kind
@pytest.mark.usefixtures("planned")
@pytest.mark.parametrize("option", ["Approve", "Reject", None])
def test_what_nobody_approves_is_forgotten(
    space: Workspace, saved: str, monkeypatch: pytest.MonkeyPatch, option: str | None, name: str
) -> None:
    monkeypatch.setattr(ApprovalOperator, "execute_complete", lambda self, context, event: event)
    run = Run(space, name)
    run.check()
    user = {"id": "7", "name": "bob"}
    event = {"chosen_options": [option], "responded_at": datetime.now(UTC), "responded_by_user": user}
    if option is None:
        with pytest.raises(AirflowSkipException, match=f"nobody approved the {name}"):
            run.approval.execute_complete(run.context, {"error": "time is up", "error_type": "timeout"})
    else:
        run.approval.execute_complete(run.context, event)
    assert len(requests(space, name).newest()) == (option == "Approve")


@each_kind
@pytest.mark.usefixtures("planned")
@pytest.mark.parametrize("kind", [CheckpointError, ValueError, OSError])
@pytest.mark.parametrize("step", ["planning", "making"])
def test_whatever_an_error_says_is_on_the_page_alone(
    space: Workspace,
    saved: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    notes: dict[str, list[str]],
    step: str,
    kind: type[Exception],
    name: str,
) -> None:
    monkeypatch.setattr(KINDS[name].module, getattr(KINDS[name], step), refuse(kind))
    run = Run(space, name)
    with pytest.raises(AirflowFailException, match=KINDS[name].nothing) as told:
        run.approved()
    kept_by_airflow = f"{capsys.readouterr()}{notes}{run.left}{_chain(told.value)}"
    assert KEY not in kept_by_airflow
    assert VALUE not in kept_by_airflow
    (kept,) = requests(space, name).newest()
    assert kept.refusal is not None
    assert KEY in kept.refusal.observed


def _chain(error: BaseException | None) -> str:
    """The error with all that led to it, as a log shows it."""
    said = ""
    while error is not None:
        said += f"{error!r}{error.args}"
        error = error.__cause__ or error.__context__
    return said


@each_kind
def test_a_store_that_is_down_is_waited_for(
    space: Workspace, saved: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(KINDS[name].module, KINDS[name].planning, refuse(StoreError))
    with pytest.raises(StreamwardenError):
        Run(space, name).check()
    (kept,) = requests(space, name).newest()
    assert kept.refusal is None


@each_kind
def test_a_request_that_is_gone_is_refused(space: Workspace, saved: str, name: str) -> None:
    asked = ask(space, name)
    requests(space, name).forget(asked)
    with pytest.raises(AirflowFailException, match="its time is over"):
        Run(space, name, **{name: asked}).check()
