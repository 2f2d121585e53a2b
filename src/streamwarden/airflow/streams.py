"""One DAG per stream, built from `config/streams/*.yaml`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from airflow.sdk import DAG, get_parsing_context

from streamwarden.airflow.operators import REATTACH, StreamOperator
from streamwarden.airflow.projects import START, TAG, data_of, project_of
from streamwarden.config.loading import STREAMS, load_catalog, load_drills, load_thresholds
from streamwarden.errors import ConfigError
from streamwarden.redaction import redacted_text
from streamwarden.stream import NAME_PATTERN, StreamSpec

if TYPE_CHECKING:
    from streamwarden.health.thresholds import Thresholds
    from streamwarden.lint.finding import Finding

TASK_ID: Final = "run"
"""The same in every stream's DAG, also in a broken one: a file that broke must not lose its running driver."""

PREFIX: Final = "stream_"
"""What the id of a stream's DAG begins with."""

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

    catalog = load_catalog(project, data_of(project))
    thresholds = _thresholds(project)
    drills = tuple(load_drills(project)[0].values())
    dags = [stream_dag(spec, project, thresholds, lint_declared(spec, drills)) for spec in catalog.streams.values()]
    for stem, error in catalog.broken.items():
        # A file that no stream can be named after never had a DAG, so none can be lost.
        name = stem if NAME_PATTERN.fullmatch(stem) else None
        dags.append(broken_dag(name or _safe(stem), project, error))
    return {dag.dag_id: dag for dag in dags}


def stream_dag(
    spec: StreamSpec, project: Path, thresholds: Thresholds | ConfigError, findings: Sequence[Finding] = ()
) -> DAG:
    """The DAG that keeps `spec` running: always one active run, which restarts, stops and starts inside itself."""
    from streamwarden.airflow.docs import stream_doc

    return _dag(
        spec.name,
        project,
        description=redacted_text(spec.description) or f"Keeps the stream {spec.name} running",
        doc=stream_doc(spec, thresholds, findings),
        owner=spec.owner,
        tags={TAG, "stream", *spec.tags},
    )


def broken_dag(name: str, project: Path, error: ConfigError) -> DAG:
    """Replaces the DAG of a stream whose file is broken: follows a living driver, and refuses to launch another."""
    from streamwarden.airflow.docs import broken_doc

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
    name: str, project: Path, *, description: str, doc: str, owner: str, tags: set[str], display_name: str | None = None
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
        default_args={"owner": owner, **REATTACH},
        dag_display_name=display_name or f"stream_{name}",
    ) as dag:
        StreamOperator(task_id=TASK_ID, stream=name, project=str(project), doc_md=description)
    return dag


def _stream_of(dag_id: str, project: Path) -> str | None:
    """The stream whose DAG has this id; None if no file has its name, as for a name that no stream may have."""
    name = dag_id.removeprefix(PREFIX)
    return name if dag_id != name and (project / STREAMS / f"{name}.yaml").is_file() else None


def _thresholds(project: Path) -> Thresholds | ConfigError:
    """A broken thresholds file belongs to the health DAG: it must not remove the streams' DAGs."""
    try:
        return load_thresholds(project)
    except ConfigError as error:
        return error


def _safe(stem: str) -> str:
    return "".join(letter if letter.isascii() and (letter.isalnum() or letter in "_-") else "_" for letter in stem)
