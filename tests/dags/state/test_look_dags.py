"""`look_at_state` and `verify_savepoint`: what they answer, and what they do not say.

The store, the checkpoint and the savepoint are real, and the process that stands for a driver; what Airflow says is
given. Spark is not started: tests/spark/jobs looks at states, and tests/spark/proofs goes on from a savepoint.
"""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from streamwarden.airflow.dags.state.looking import LookOperator
from streamwarden.airflow.dags.state.verifying import VerifyOperator
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.time_travel.answers import Entry, Share, Shown
from streamwarden.lifecycle.time_travel.tables import StateTable, TableKind
from streamwarden.services.savepoints.saved import Savepoints
from streamwarden.services.state import looking
from streamwarden.services.state.looking import Look
from streamwarden.services.state.looks import Looks, Wanted
from streamwarden.services.workspace import Workspace
from support.airflow.change_runs import KEY


def test_a_savepoint_is_verified(space: Workspace, saved: str, notes: dict[str, list[str]]) -> None:
    given = {"params": {"stream": "counted", "savepoint": saved}, "ti": None}
    VerifyOperator(task_id="verify", project=str(space.project)).execute(given)
    assert notes["run"][0].startswith(f"{saved}: all is as it was saved (")
    Path(Savepoints.of(space.stream("counted")).place(saved).path, "checkpoint/metadata").unlink()
    with pytest.raises(AirflowFailException, match="1 file differ"):
        VerifyOperator(task_id="verify", project=str(space.project)).execute(given)


SHOWN = Shown(
    fields=("key",),
    rows=1,
    entries=(Entry(partition=0, key=(KEY,), value='{"n":1}'),),
    partitions=(Share(partition=0, rows=1, bytes=8),),
)


@pytest.fixture
def asked_of_spark(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    asked: list[Any] = []

    def show(spec: Any, chosen: Any, **more: Any) -> Look[Shown]:
        asked.append((chosen, more))
        if more["batch"] == 99:
            raise CheckpointError(f"no row with {KEY}", expected="one", where=spec.name, next_step="another")
        table = StateTable(operator=0, name="stateStoreSave", kind=TableKind.ROWS)
        return Look(stream=spec.name, table=table, batches=(7,), committed_at=1.0, kept=(7,), answer=SHOWN)

    monkeypatch.setattr(looking, "show", show)
    return asked


FORM = {"stream": "counted", "look": None, "operator": None, "variable": None, "batch": None, "since": None,
        "key": None, "history": False}  # fmt: skip


def look(space: Workspace, **params: Any) -> None:
    run = SimpleNamespace(triggering_user_name="ann")
    LookOperator(task_id="look", project=str(space.project)).execute(
        {"params": FORM | params, "dag_run": run, "ti": None}
    )


def test_a_question_of_the_page_is_answered_for_the_page_alone(
    space: Workspace, asked_of_spark: list[Any], capsys: pytest.CaptureFixture[str], notes: dict[str, list[str]]
) -> None:
    """Airflow is given an id, and is told how many rows there are."""
    looks = Looks(space.data, "counted")
    asked = looks.ask("ann", Wanted(keys=(KEY,)), time.time())
    look(space, look=asked.id)
    seen = looks.get(asked.id)
    assert seen is not None
    assert seen.shown == SHOWN
    assert asked_of_spark[0][0].keys == (KEY,)
    assert notes["run"] == ["1 of 1 rows after batch 7"]
    assert KEY not in capsys.readouterr().out


def test_the_form_asks_too(space: Workspace, asked_of_spark: list[Any]) -> None:
    look(space, key=f"origin=EWR\n carrier={KEY} ", batch=7)
    (seen,) = Looks(space.data, "counted").newest()
    assert (seen.by, seen.shown) == ("ann (Airflow)", SHOWN)
    assert asked_of_spark == [(looking.Selection(keys=("origin=EWR", f"carrier={KEY}")), {"batch": 7, "rows": 50})]


def test_no_answer_is_told_without_the_key(
    space: Workspace, asked_of_spark: list[Any], capsys: pytest.CaptureFixture[str], notes: dict[str, list[str]]
) -> None:
    with pytest.raises(AirflowSkipException, match="the stream's page says why"):
        look(space, key=KEY, batch=99)
    assert KEY not in capsys.readouterr().out + "".join(notes["run"])
    with pytest.raises(AirflowFailException, match="its time is over"):
        look(space, look="20260101T000000000000Z-01234567")
    with pytest.raises(AirflowFailException, match="a history shows one key"):
        look(space, history=True)
