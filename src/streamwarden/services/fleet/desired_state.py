"""Records whether a stream should run, and ends its supervision incident when it is no longer down unintentionally."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from streamwarden.errors import StoreError
from streamwarden.health.incidents.stream_incidents import close_incident, silence
from streamwarden.lifecycle.supervision.stop import Desired, DesiredState

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store


def set_desired(
    store: Store, stream: str, desired: Desired, *, by: str, reason: str, now: float, begin_anew: str | None = None
) -> None:
    """Record the desired state; supervisors act on it. Raises StoreError."""
    state = DesiredState(
        stream=stream, desired=desired, changed_by=by, reason=reason, changed_at=now, begin_anew=begin_anew
    )
    store.stops.set_desired(state)


def silence_stream(store: Store, stream: str, now: float, reason: str) -> None:
    """Resolve every open incident of the stream, because it should be stopped.

    A store that is down is ignored: the next evaluation and the next stop request resolve them too.
    """
    with contextlib.suppress(StoreError):
        silence(store.incidents, stream, reason, now)


def resolve_incident(store: Store, stream: str, now: float, reason: str = "a driver runs again") -> None:
    """Resolve the stream's supervision incident: a driver runs.

    A store that is down is ignored: the process that follows the driver resolves the incident too, and so does the
    next stop request.
    """
    with contextlib.suppress(StoreError):
        close_incident(store.incidents, stream, now, reason)
