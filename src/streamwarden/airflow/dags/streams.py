"""One DAG per stream, built from `config/streams/*.yaml`."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from airflow.sdk import DAG, TriggerRule, get_parsing_context

from streamwarden.adapters.airflow_server import PREFIX
from streamwarden.airflow.notifying import report_failures
from streamwarden.airflow.operators import REATTACH, STOPPED, StoppedOperator, StreamOperator
from streamwarden.airflow.projects import START, TAG, built, dag_name, project_of
from streamwarden.airflow.workspaces import catalog_of, workspace
from streamwarden.config.loading import STREAMS, load_drills, load_thresholds
from streamwarden.errors import ConfigError, StoreError
from streamwarden.health.thresholds import Thresholds
from streamwarden.lint.finding import Finding
from streamwarden.redaction import redacted_text
from streamwarden.stream.spec import NAME_PATTERN, StreamSpec

TASK_ID: Final = "run"
"""The same in every stream's DAG, also in a broken one: a file that broke must not lose its running driver."""

BROKEN: Final = "broken-config"


def stream_dags(dag_file: str) -> dict[str, DAG]:
    """DAG id -> DAG for every stream of the project, the broken ones too. Never raises for a stream's own file.

    A task's process reads the DAG file too, also between a driver's end and its restart. It gets its own DAG alone,
    without what only the UI shows, nor its imports: to read and check every stream's file takes some 25 ms each.
    """
    project = project_of(dag_file)
    wanted = get_parsing_context().dag_id
    if wanted is not None and (name := _stream_of(wanted, project)) is not None:
        return {wanted: task_dag(name, project)}
    from streamwarden.services.analysis.linting import lint_declared

    catalog = catalog_of(workspace(str(project)))
    thresholds = _thresholds(project)
    drills, streams = tuple(load_drills(project)[0].values()), tuple(catalog.streams.values())
    dags = [
        built(
            lambda spec=spec: stream_dag(spec, project, thresholds, lint_declared(spec, drills, streams)),  # type: ignore[misc]
            partial(broken_dag, name, project),
            where=spec.file,
        )
        for name, spec in catalog.streams.items()
        if name not in catalog.undeclared
    ]
    dags += [broken_dag(name, project, reason) for name, reason in catalog.undeclared.items()]
    dags += [broken_dag(dag_name(stem, NAME_PATTERN), project, error) for stem, error in catalog.broken.items()]
    return {dag.dag_id: dag for dag in dags}


def stream_dag(
    spec: StreamSpec, project: Path, thresholds: Thresholds | ConfigError, findings: Sequence[Finding] = ()
) -> DAG:
    """The DAG that keeps `spec` running: always one active run, which restarts, stops and starts inside itself."""
    from streamwarden.airflow.dags.docs import stream_doc

    return _dag(
        spec.name,
        project,
        description=redacted_text(spec.description) or f"Keeps the stream {spec.name} running",
        doc=stream_doc(spec, thresholds, findings),
        owner=spec.owner,
        tags={TAG, "stream", *spec.tags},
        queue=spec.queue,
    )


def broken_dag(name: str, project: Path, error: ConfigError) -> DAG:
    """Replaces the DAG of a stream whose file is broken: follows a living driver, and refuses to launch another."""
    from streamwarden.airflow.dags.docs import broken_doc

    return _dag(
        name,
        project,
        description=f"The configuration of {name} is broken",
        doc=broken_doc(name, error),
        owner="streamwarden",
        tags={TAG, "stream", BROKEN},
        display_name=f"stream_{name} (broken configuration)",
    )


def task_dag(name: str, project: Path) -> DAG:
    """The DAG of a stream as a task's process needs it; the task reads the stream's file itself, broken or not."""
    return _dag(name, project, description="", doc="", owner="streamwarden", tags={TAG})


def _dag(
    name: str,
    project: Path,
    *,
    description: str,
    doc: str,
    owner: str,
    tags: set[str],
    display_name: str | None = None,
    queue: str | None = None,
) -> DAG:
    with DAG(
        dag_id=f"{PREFIX}{name}",
        description=description,
        doc_md=doc,
        schedule="@continuous",
        start_date=START,
        catchup=False,
        max_active_runs=1,
        # A run fails only when the stream is to stay down: the DAG then pauses itself and stays red.
        max_consecutive_failed_dag_runs=1,
        tags=sorted(tags),
        default_args={"owner": owner, **({"queue": queue} if queue else {}), **REATTACH, **report_failures(project)},
        dag_display_name=display_name or f"stream_{name}",
    ) as dag:
        folder = str(project)
        run = StreamOperator(task_id=TASK_ID, stream=name, project=folder, doc_md=description)
        run >> StoppedOperator(
            task_id=STOPPED,
            stream=name,
            project=folder,
            task_display_name="stopped on purpose",
            doc_md="Deferred while the stream is stopped on purpose. A start ends it, and a new run begins.",
            # It runs if `run` was skipped. If `run` failed, this task is a leaf that makes the whole run fail.
            trigger_rule=TriggerRule.NONE_FAILED,
        )
    return dag


def _stream_of(dag_id: str, project: Path) -> str | None:
    """The stream whose DAG has this id; None if neither a file nor a driver has its name, as for a name that no stream
    may have."""
    name = dag_id.removeprefix(PREFIX)
    if dag_id == name:
        return None
    return name if (project / STREAMS / f"{name}.yaml").is_file() or _has_run(name, project) else None


def _has_run(name: str, project: Path) -> bool:
    try:
        return workspace(str(project)).store.drivers.latest(name) is not None
    except StoreError:
        return False


def _thresholds(project: Path) -> Thresholds | ConfigError:
    """A broken thresholds file belongs to the health DAG: it must not remove the streams' DAGs."""
    try:
        return load_thresholds(project)
    except ConfigError as error:
        return error
