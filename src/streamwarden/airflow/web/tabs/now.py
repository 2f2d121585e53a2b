"""The tab that a stream's page begins with: is it alive, is it right, will it hold?"""

from collections.abc import Mapping
from typing import Any, Final

from streamwarden.airflow.web.tabs.charts import since_launch
from streamwarden.airflow.web.tabs.tab import Of, Opened, Tab
from streamwarden.drills.records.sections import DOCUMENTED_CHECKS
from streamwarden.health.incidents.consequences import folded
from streamwarden.health.incidents.incident import Incident
from streamwarden.health.verdict import Status
from streamwarden.services.overview.charts import FIRST
from streamwarden.services.overview.rows import StreamRow
from streamwarden.services.overview.standing import told_by
from streamwarden.services.workspace import Workspace


def _read(opened: Opened, part: str) -> Mapping[str, Any]:
    return {
        "documented": DOCUMENTED_CHECKS,
        "alarms": _alarms(opened.row),
        "told": told_by(opened.row.state),
        "advised": _advised(opened.space, opened.row.stream),
        **({} if part else {"first": FIRST, "since": since_launch(opened)}),
    }


def _alarms(row: StreamRow) -> dict[str, tuple[str, ...]]:
    """The alarming checks that are causes, the worst first, each with its consequences: one box for each cause. What
    follows from a dead driver stands below the state, which says why it died."""
    if not row.shows_health:
        return {}
    metrics = sorted(row.metrics.values(), key=lambda metric: -metric.status.rank)
    return folded((*told_by(row.state), *(metric.check for metric in metrics if metric.status.alarms)))


def _advised(space: Workspace, stream: str) -> dict[str, Incident]:
    """The open incidents of settings that cost too much, by the health check that judges the same."""
    incidents = space.store.incidents.open(stream)
    return {str(found.evidence.get("cures")): found for found in incidents if found.status is Status.ADVICE}


TAB: Final = Tab(
    name="",
    label="Now",
    page="stream_now.html",
    parts={"live": "stream_live.html"},
    read=_read,
    every=2,
    of=Of.BOTH,
    draws=True,
)
