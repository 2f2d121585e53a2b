"""The DAG that judges settings once a day: it opens incidents that nobody is notified of, and resolves them."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from airflow.sdk.exceptions import AirflowFailException

from streamwarden.airflow.dags.advice import advice_dags, judge_all
from streamwarden.health.incidents.notification_due import notifiable
from streamwarden.health.verdict import Status
from streamwarden.services.workspace import Workspace
from support.airflow.project import add_stream
from support.streams.reports import report


def record(space: Workspace, seconds: float) -> None:
    """Batches that take `seconds` and a little for their rows, one after the other."""
    now = time.time()
    for number, rows in enumerate([100, 200, 300, 400] * 8):
        taken = round(1000 * (seconds + rows / 10_000))
        durations = {"triggerExecution": taken, "addBatch": taken}
        made = report(
            number,
            at=now - 1000 + 10 * number,
            rows=rows,
            batchDuration=taken,
            durationMs=durations,
        )
        space.store.batches.upsert_progress("counted", made)


def test_it_is_one_task_a_day(space: Workspace) -> None:
    dag = advice_dags(str(space.project / "dags/advice.py"))["advice"]
    assert [each.task_id for each in dag.tasks] == ["judge_settings"]
    assert dag.max_active_runs == 1
    assert not dag.catchup


def test_a_costly_setting_is_an_incident_until_it_costs_less(
    space: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    """Batches of 12 s, nearly all of it fixed time, with a trigger of seconds."""
    record(space, 12.0)
    judge_all(str(space.project))
    (incident,) = space.store.incidents.open("counted")
    assert (incident.check, incident.status) == ("advice_trigger", Status.ADVICE)
    assert incident.evidence["cures"] == "batch_longer_than_trigger"
    assert "advise counted --apply" in incident.advice
    assert "it costs" in capsys.readouterr().out
    record(space, 0.1)
    judge_all(str(space.project))
    assert list(space.store.incidents.open("counted")) == []
    assert space.store.incidents.recent("counted")[0].status is Status.OK


def test_advice_notifies_nobody_and_alarms_nobody(space: Workspace) -> None:
    """Negative control: the same incident as a WARNING would be sent."""
    record(space, 12.0)
    judge_all(str(space.project))
    now = time.time()
    assert notifiable(space.store.incidents, now) == ()
    assert list(space.store.incidents.alarming()) == []
    (incident,) = space.store.incidents.open("counted")
    space.store.incidents.save(replace(incident, status=Status.WARNING))
    assert len(notifiable(space.store.incidents, now)) == 1


def test_a_stream_that_cannot_be_judged_fails_the_task_and_not_the_others(
    space: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    from streamwarden.errors import CheckpointError
    from streamwarden.services.autotuning import incidents

    add_stream(space.project, "other")
    record(space, 12.0)
    gather = incidents.gather

    def broken(spec, *given):
        if spec.name == "other":
            raise CheckpointError("no", expected="yes", where="there", next_step="look")
        return gather(spec, *given)

    monkeypatch.setattr(incidents, "gather", broken)
    with pytest.raises(AirflowFailException, match="other: there: no"):
        judge_all(str(space.project))
    assert [each.check for each in space.store.incidents.open()] == ["advice_trigger"]
