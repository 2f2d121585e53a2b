"""The DAG that publishes progress: whether there is one, what it emits, and what it makes of how its runs ended."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from streamwarden.airflow.dags.publishing import ALIAS, DAG_ID, TASK_ID, _endings, asset, publish_due
from streamwarden.lifecycle.publishing import Ending
from streamwarden.services.workspace import Workspace
from support.airflow.project import add_stream, make_project
from support.streams.reports import report


def dag_ids(project: Path, patch: pytest.MonkeyPatch) -> dict[str, Any]:
    from airflow.dag_processing.dagbag import DagBag

    from streamwarden.airflow.workspaces import workspace

    patch.setenv("STREAMWARDEN_PROJECT", str(project))
    workspace.cache_clear()
    bag = DagBag(dag_folder=str(project / "dags"))
    assert bag.import_errors == {}
    return dict(bag.dags)


def publishing(project: Path, policy: str) -> None:
    path = add_stream(project, "counted")
    path.write_text(f"{path.read_text()}\npublish: {policy}\n")


def test_there_is_a_dag_as_soon_as_a_stream_publishes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One task for all streams, whose only outlet is the alias."""
    project = make_project(tmp_path / "project")
    add_stream(project, "counted")
    assert DAG_ID not in dag_ids(project, monkeypatch)
    publishing(project, "{every: 1h}")
    dag = dag_ids(project, monkeypatch)[DAG_ID]
    assert [(task.task_id, task.outlets) for task in dag.tasks] == [(TASK_ID, [ALIAS])]
    assert dag.max_active_runs == 1


def test_an_event_goes_to_the_asset_of_its_stream(space: Workspace) -> None:
    """The names of asset and alias are what other DAGs are scheduled on: they must not change."""
    from airflow.sdk import Asset
    from airflow.sdk.execution_time.context import OutletEventAccessors

    publishing(space.project, "{batches: 2}")
    for batch in range(3):
        space.store.batches.upsert_progress("counted", report(batch))
    outlets = OutletEventAccessors()
    context = {"ti": SimpleNamespace(run_id="run-1"), "outlet_events": outlets}
    publish_due(str(space.project), context, time.time())
    (made,) = outlets[ALIAS].asset_alias_events
    assert (made.source_alias_name, made.dest_asset_key.name) == ("streamwarden", "stream_counted")
    assert made.dest_asset_key.uri == Asset(name="a", uri="streamwarden://counted").uri
    assert (made.extra["batch_id"], made.extra["batches"]) == (2, 3)


def test_the_asset_of_a_query_has_its_name_too() -> None:
    named = asset("clicks/by_page")
    assert (named.name, named.uri) == ("stream_clicks/by_page", "streamwarden://clicks/by_page")


@pytest.mark.parametrize(
    ("state", "ending"),
    [
        ("success", Ending.PUBLISHED),
        ("failed", Ending.LOST),
        ("skipped", Ending.LOST),
        ("removed", Ending.LOST),
        ("upstream_failed", Ending.LOST),
        ("running", Ending.OPEN),
        ("up_for_retry", Ending.OPEN),
        (None, Ending.OPEN),
    ],
)
def test_only_a_run_that_succeeded_has_published(state: str | None, ending: Ending) -> None:
    """Airflow keeps events in the transaction that ends a task well."""
    ti = SimpleNamespace(dag_id=DAG_ID, task_id=TASK_ID, get_task_states=lambda **_: {"run-1": {TASK_ID: state}})
    assert _endings(ti, ["run-1"]) == {"run-1": ending}


def test_a_run_that_was_deleted_counts_as_published() -> None:
    """It had ended, most likely well, and no event may be sent twice."""
    ti = SimpleNamespace(dag_id=DAG_ID, task_id=TASK_ID, get_task_states=lambda **_: {})
    assert _endings(ti, ["gone"]) == {"gone": Ending.PUBLISHED}
