"""What the forms of these DAGs have in common: the stream or query, the savepoint, and how their DAGs are made."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, BaseOperator, Param
from airflow.sdk.exceptions import AirflowFailException

from streamwarden.airflow.dags.controls import stream_choice
from streamwarden.airflow.links import StreamPageLink
from streamwarden.airflow.notifying import report_failures
from streamwarden.airflow.projects import START, TAG
from streamwarden.airflow.workspaces import catalog_of, workspace
from streamwarden.errors import StoreError, StreamwardenError
from streamwarden.lifecycle.queries import SEPARATOR
from streamwarden.stream.spec import StreamSpec


def form(dag_id: str, project: Path, doc: str, params: dict[str, Param], **more: Any) -> DAG:
    """A DAG that a person runs with a form. Its first field is the stream.

    Args:
        doc: its first line describes the DAG.
    """
    names = sorted(query_names(catalog_of(workspace(str(project))).streams.values()))
    description = doc.partition("\n")[0]
    return DAG(
        dag_id=dag_id,
        description=description,
        doc_md=f"### {dag_id}\n\n{doc}",
        schedule=None,
        start_date=START,
        catchup=False,
        is_paused_upon_creation=False,  # a run of a paused DAG is queued for ever
        tags=sorted({TAG, "state"}),
        default_args={
            "owner": "streamwarden",
            "retries": 1,
            "retry_delay": timedelta(seconds=5),
            **report_failures(project),
        },
        params={"stream": stream_choice(names), **params},
        **more,
    )


def text(title: str, description: str, **more: Any) -> Param:
    """A field that may stay empty."""
    return Param(None, type=["null", "string"], title=title, description=description, maxLength=200, **more)


def number(title: str, description: str) -> Param:
    """A field for a whole number, which may stay empty."""
    return Param(None, type=["null", "integer"], title=title, description=description, minimum=0, maximum=2**62)


def savepoint() -> Param:
    """The field for a savepoint."""
    shown = "A savepoint that the stream's page lists; empty: the newest one"
    return text("Savepoint", shown, pattern="^[0-9]{8}T[0-9]{6}Z$")


class FormOperator(BaseOperator):
    """A task of such a DAG. `stream`: the stream or query that the form names."""

    template_fields = ("stream",)
    operator_extra_links = (StreamPageLink(),)

    def __init__(self, *, project: str, stream: str = "{{ params.stream }}", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stream = stream
        self.project = project


@contextmanager
def refused_for_good() -> Iterator[None]:
    """Let no other try follow a refusal: it would be the same again. A store that is down may answer the next try."""
    try:
        yield
    except StoreError:
        raise
    except StreamwardenError as error:
        raise AirflowFailException(str(error)) from error


def query_names(streams: Iterable[StreamSpec]) -> Iterator[str]:
    """What a person may choose: a stream, or of one that declares several queries each of these."""
    for spec in streams:
        yield from (f"{spec.name}{SEPARATOR}{query}" for query in spec.queries) if spec.queries else (spec.name,)
