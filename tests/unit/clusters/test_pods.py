"""Why a pod does not run, as the API server keeps it. The documents are cut down from those of Kubernetes 1.34."""

from __future__ import annotations

from typing import Any

import pytest

from streamwarden.clusters.pods import first_wait, wait_of

NO_ROOM = "0/1 nodes are available: 1 Insufficient memory. preemption: 0/1 nodes are available"


def pod(phase: str = "Pending", name: str = "counts-exec-1", **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": {"phase": phase, **status}}


def unschedulable() -> dict[str, Any]:
    return {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": NO_ROOM}


def container(reason: str, message: str | None = None) -> dict[str, Any]:
    return {"state": {"waiting": {"reason": reason, "message": message}}}


def event(reason: str, at: str, kind: str = "Warning", of: str = "counts-exec-1") -> dict[str, Any]:
    said = {"reason": reason, "message": f"{reason} it is", "type": kind, "lastTimestamp": at}
    return said | {"involvedObject": {"name": of}}


@pytest.mark.parametrize(
    ("document", "events", "reason", "message"),
    [
        (pod(conditions=[unschedulable()]), [], "Unschedulable", NO_ROOM),
        (pod(containerStatuses=[container("ImagePullBackOff", "not found")]), [], "ImagePullBackOff", "not found"),
        (pod(containerStatuses=[container("ContainerCreating")]), [], "", ""),
        (pod(containerStatuses=[container("CreateContainerConfigError")], conditions=[unschedulable()]), [],
         "CreateContainerConfigError", ""),
        (pod(), [event("Old", "2026-01-01"), event("FailedMount", "2026-01-02"), event("Pulled", "2026-01-03", "Normal")],
         "FailedMount", "FailedMount it is"),
        ({"metadata": {"name": "x"}}, [], "", ""),
    ],
)  # fmt: skip
def test_the_reason_is_the_one_that_says_most(
    document: dict[str, Any], events: list[dict[str, Any]], reason: str, message: str
) -> None:
    found = wait_of(document, events)
    assert found is not None
    assert (found.reason, found.message) == (reason, message)
    assert found.pod in found.text


@pytest.mark.parametrize("phase", ["Running", "Succeeded", "Failed", "Unknown"])
def test_a_pod_that_is_not_pending_waits_for_nothing(phase: str) -> None:
    assert wait_of(pod(phase, conditions=[unschedulable()])) is None


def test_of_several_pods_one_that_says_why_is_named() -> None:
    silent, said, runs = pod(name="a"), pod(name="b", conditions=[unschedulable()]), pod("Running", name="c")
    found = first_wait([silent, said, runs])
    assert found is not None
    assert found.pod == "b"
    assert "spark.executors" in found.next_step
    assert first_wait([runs]) is None


def test_an_event_belongs_to_its_pod() -> None:
    found = first_wait([pod(name="a")], [event("FailedMount", "2026", of="b")])
    assert found is not None
    assert found.text == "pod a is pending: Kubernetes gives no reason"
    assert found.next_step == "look at the pod: `kubectl describe pod a`"
