"""The head of each tab of a stream's page: its one word, since when, and what a person may do."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from streamwarden.airflow.web.access import allowed, allowed_of
from streamwarden.airflow.web.shared_workspace import catalogs
from streamwarden.airflow.web.words.badge import Badge, badge, since
from streamwarden.airflow.web.words.verbs import Verb, verbs
from streamwarden.services.overview.rows import StreamRow
from streamwarden.services.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What the head says beside the row.

    Args:
        since: when the state began, Unix seconds; None: not known.
        verbs: those of the stream's state, each with whether the user may run its DAG.
        audits: whether the user may run the audit; None: it has no DAG, or the user may not read it.
    """

    badge: Badge
    since: float | None
    verbs: Sequence[tuple[Verb, bool]]
    audits: bool | None


def head(space: Workspace, user: Any, row: StreamRow, rows: Sequence[StreamRow]) -> Head:
    """The head of the page of `row`, the stream or one of its queries.

    Args:
        rows: of the stream and its queries: a verb is of the stream.
    """
    whole = next(other for other in rows if not other.is_query)
    offered = verbs(whole.state)
    may = allowed_of([verb.dag_id for verb in offered], user, "POST")
    return Head(
        badge=badge(row),
        since=since(row),
        verbs=[(verb, verb.dag_id in may) for verb in offered],
        audits=_audits(space, whole.stream, user),
    )


def _audits(space: Workspace, stream: str, user: Any) -> bool | None:
    spec, dag_id = catalogs().newest(space).catalog.streams.get(stream), f"audit_{stream}"
    if spec is None or spec.audit.schedule is None or not allowed(dag_id, user):
        return None
    return allowed(dag_id, user, "POST")
