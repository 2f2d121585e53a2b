"""Why a pod of Kubernetes does not run, from what the API server keeps of it. Pure.

A pod and an event are dictionaries as the API server sends them (JSON).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

Document = Mapping[str, Any]

_BEGINNING: Final = frozenset({"ContainerCreating", "PodInitializing"})
"""Reasons of a container that waits for nothing but its node."""

_NOT_SCHEDULED: Final = "FailedScheduling"
"""The reason of the scheduler's event for a pod without room, whose condition has the reason `Unschedulable`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodWait:
    """Why one pod does not run.

    Args:
        reason: Kubernetes' own word, `Unschedulable` or `ImagePullBackOff`; empty: it says none.
        message: what it says beside it.
    """

    pod: str
    reason: str
    message: str

    @property
    def what(self) -> str:
        """Completes "it waits for"."""
        return f"its pod {self.pod}: {self.reason or 'pending, and Kubernetes gives no reason'}"


def wait_of(pod: Document, events: Sequence[Document] = ()) -> PodWait | None:
    """Why the pod is pending; None if it is not. `events`: the pod's, in any order.

    A container's state comes first, since it says most. Then what the scheduler says, then the newest other warning.
    """
    status, name = pod.get("status") or {}, str((pod.get("metadata") or {}).get("name", ""))
    if status.get("phase") not in ("Pending", None):
        return None
    reason, message = _container(status) or _scheduling(status, events) or _warning(events) or ("", "")
    return PodWait(pod=name, reason=reason, message=message)


def first_wait(pods: Iterable[Document], events: Iterable[Document] = ()) -> PodWait | None:
    """Why the first of several pods is pending, one that says why before one that does not; None if none is."""
    of_pod: dict[str, list[Document]] = {}
    for event in events:
        of_pod.setdefault(str((event.get("involvedObject") or {}).get("name", "")), []).append(event)
    waits = [wait_of(pod, of_pod.get(str((pod.get("metadata") or {}).get("name", "")), ())) for pod in pods]
    found = sorted((wait for wait in waits if wait is not None), key=lambda wait: (not wait.reason, wait.pod))
    return found[0] if found else None


def _container(status: Document) -> tuple[str, str] | None:
    for container in status.get("containerStatuses") or ():
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") and waiting["reason"] not in _BEGINNING:
            return str(waiting["reason"]), str(waiting.get("message") or "")
    return None


def _scheduling(status: Document, events: Sequence[Document]) -> tuple[str, str] | None:
    """What the pod's condition says. The scheduler writes its event a moment earlier: until the condition is there, the
    event is given the same reason. Once the pod is scheduled, its old events say nothing."""
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled":
            return _said(condition) if condition.get("status") == "False" else None
    event = _newest(event for event in events if event.get("reason") == _NOT_SCHEDULED)
    return None if event is None else ("Unschedulable", _said(event)[1])


def _warning(events: Sequence[Document]) -> tuple[str, str] | None:
    event = _newest(event for event in events if event.get("reason") != _NOT_SCHEDULED)
    return None if event is None else _said(event)


def _newest(events: Iterable[Document]) -> Document | None:
    """The newest warning."""
    warnings = (event for event in events if event.get("type") == "Warning")
    return max(
        warnings, key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""), default=None
    )


def _said(told: Document) -> tuple[str, str]:
    """Reason and message of a condition or an event."""
    return str(told.get("reason") or ""), str(told.get("message") or "")
