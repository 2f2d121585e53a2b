"""Acknowledges incidents for people, withdraws that, and adds comments. Each action is recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamwarden.errors import ConfigError
from streamwarden.health.incidents.consequences import IncidentGroup
from streamwarden.health.incidents.handling import Handling
from streamwarden.health.incidents.incident_actions import ActionKind, IncidentAction, acknowledged
from streamwarden.health.incidents.incident_log import LogEntry, incident_log
from streamwarden.health.incidents.notification_due import OLD_NEWS, resolved_since

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store
    from streamwarden.health.incidents.incident import Incident

_LIST = "`streamwarden incidents --all` lists the ids"


def handling(store: Store, now: float, *, since: float | None = None) -> Handling:
    """Acknowledgements and mutes of incidents and streams, in two queries. Raises StoreError.

    The incidents are those that are open or were resolved within the last day, and those resolved since `since`; all
    times are Unix seconds.
    """
    mutes = store.mutes.since(now - OLD_NEWS)
    oldest = resolved_since(mutes, now)
    actions = store.incident_actions.current(oldest if since is None else min(since, oldest))
    return Handling(actions=actions, mutes=mutes)


def log_of(store: Store, incident: Incident, now: float) -> tuple[LogEntry, ...]:
    """Everything that people did about the incident until `now` (Unix seconds), oldest first. Raises StoreError."""
    actions = store.incident_actions.of(incident.incident_id)
    return incident_log(incident, actions, store.mutes.since(incident.opened_at), now)


def acknowledge(store: Store, incident_id: str, *, who: str, now: float, comment: str = "") -> IncidentAction:
    """Record that a person takes care of the open incident: its status is not sent again, unless it becomes CRITICAL.

    Raises ConfigError if it is not known, resolved, or a consequence, which is not sent anyway; StoreError.

    Args:
        incident_id: or its first characters.
        now: Unix seconds.
    """
    incident = find(store, incident_id)
    _require_open(incident)
    _require_root(incident)
    return _record(store, incident, ActionKind.ACKNOWLEDGED, who, comment, now)


def withdraw(store: Store, incident_id: str, *, who: str, now: float, comment: str = "") -> IncidentAction:
    """Withdraw the acknowledgement of the open incident: it is sent again like any other.

    Raises ConfigError if it is not known, resolved, or not acknowledged; StoreError.
    """
    incident = find(store, incident_id)
    _require_open(incident)
    if acknowledged(store.incident_actions.of(incident.incident_id)) is None:
        raise ConfigError(
            "the incident is not acknowledged, so there is nothing to withdraw",
            expected="an incident that somebody acknowledged",
            where=_where(incident),
            next_step=f"`streamwarden incident show {incident.incident_id}` lists what people did about it",
        )
    return _record(store, incident, ActionKind.WITHDRAWN, who, comment, now)


def add_comment(store: Store, incident_id: str, *, who: str, now: float, text: str) -> IncidentAction:
    """Record a comment on an incident, open or resolved. It changes nothing that is sent.

    Raises ConfigError if the incident is not known or the comment is empty; StoreError.
    """
    incident = find(store, incident_id)
    if not text.strip():
        raise ConfigError(
            "the comment is empty", expected="a text", where=_where(incident), next_step="write what you know"
        )
    return _record(store, incident, ActionKind.COMMENTED, who, text, now)


def find(store: Store, incident_id: str) -> Incident:
    """The incident with this id, or the only one whose id begins so. Raises ConfigError, StoreError."""
    matches = store.incidents.matching(incident_id)
    if len(matches) == 1:
        return matches[0]
    observed = f"several incidents begin with {incident_id!r}" if matches else f"there is no incident {incident_id!r}"
    raise ConfigError(observed, expected="the id of one incident, or its first characters", next_step=_LIST)


def _record(store: Store, incident: Incident, kind: ActionKind, who: str, text: str, now: float) -> IncidentAction:
    group = IncidentGroup(incident, tuple(store.incidents.consequences(incident.incident_id)))
    action = IncidentAction(
        incident_id=incident.incident_id, kind=kind, who=who, at=now, status=group.status, text=text.strip()
    )
    store.incident_actions.add(action)
    return action


def _require_open(incident: Incident) -> None:
    if incident.resolved_at is not None:
        raise ConfigError(
            "the incident is resolved, so nothing of it is sent any more",
            expected="an open incident",
            where=_where(incident),
            next_step=f"to add what you know: `streamwarden incident comment {incident.incident_id} TEXT`",
        )


def _require_root(incident: Incident) -> None:
    if incident.consequence_of is not None:
        raise ConfigError(
            "the incident is a consequence of another one, so it is not sent itself",
            expected="an incident that alarms",
            where=_where(incident),
            next_step=f"acknowledge its cause: `streamwarden incident ack {incident.consequence_of}`",
        )


def _where(incident: Incident) -> str:
    return f"incident {incident.incident_id} ({incident.stream}: {incident.check})"
