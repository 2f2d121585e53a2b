"""Why a pod does not run, as the API server keeps it. The documents are cut down from those of Kubernetes 1.34."""

from __future__ import annotations

import re
from typing import Any

import pytest

from streamwarden.clusters.kubernetes import KUBERNETES, label_value
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
        (pod(), [event("Old", "2026-1"), event("FailedMount", "2026-2"), event("Pulled", "2026-3", "Normal")],
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
    assert found.pod in found.what


def test_the_order_in_which_the_scheduler_writes_event_and_condition_does_not_matter() -> None:
    """It writes the event first; a read in between finds that alone."""
    told = event("FailedScheduling", "2026-1") | {"message": NO_ROOM}
    between = wait_of(pod(), [told])
    assert between == wait_of(pod(conditions=[unschedulable()]), [told])
    assert between == wait_of(pod(conditions=[unschedulable()]))


@pytest.mark.parametrize(
    ("later", "reason"), [([], ""), ([event("FailedMount", "2026-1")], "FailedMount")], ids=["nothing", "its node"]
)
def test_a_pod_that_is_scheduled_is_not_called_unschedulable_for_an_old_event(later: list[Any], reason: str) -> None:
    scheduled = pod(conditions=[{"type": "PodScheduled", "status": "True"}])
    found = wait_of(scheduled, [event("FailedScheduling", "2026-2"), *later])
    assert found is not None
    assert found.reason == reason


@pytest.mark.parametrize("phase", ["Running", "Succeeded", "Failed", "Unknown"])
def test_a_pod_that_is_not_pending_waits_for_nothing(phase: str) -> None:
    assert wait_of(pod(phase, conditions=[unschedulable()])) is None


def test_of_several_pods_one_that_says_why_is_named() -> None:
    silent, said, runs = pod(name="a"), pod(name="b", conditions=[unschedulable()]), pod("Running", name="c")
    found = first_wait([silent, said, runs])
    assert found is not None
    assert found.pod == "b"
    assert first_wait([runs]) is None


def test_an_event_belongs_to_its_pod() -> None:
    found = first_wait([pod(name="a")], [event("FailedMount", "2026", of="b")])
    assert found is not None
    assert found.what == "its pod a: pending, and Kubernetes gives no reason"


def of(role: str, document: dict[str, Any]) -> dict[str, Any]:
    document["metadata"]["labels"] = {"spark-role": role}
    return document


FULL = {"conditions": [unschedulable()]}


@pytest.mark.parametrize(
    ("pods", "waits"),
    [
        ([of("driver", pod(**FULL))], True),
        ([of("driver", pod("Running"))], False),
        ([of("driver", pod("Running")), of("executor", pod(**FULL))], True),
        ([of("executor", pod(**FULL)), of("executor", pod("Running"))], False),
        ([of("executor", pod(**FULL)), of("executor", pod("Failed"))], True),
        ([of("driver", pod("Succeeded"))], False),
    ],
    ids=["no driver", "a driver", "no executor", "one executor", "one lost", "all is over"],
)
def test_an_application_waits_for_its_driver_or_for_all_of_its_executors(pods: list[Any], waits: bool) -> None:
    assert KUBERNETES.waits is not None
    found = KUBERNETES.waits({"pods": pods, "events": []})
    assert (found is not None) is waits
    if found is not None:
        assert found.said == NO_ROOM
        assert "Unschedulable" in found.words


@pytest.mark.parametrize("driver_id", ["counts-20260102T030405-9f86d081", "a" * 60 + "_-.-20260102T030405-9f86d081"])
def test_a_label_may_hold_the_drivers_id(driver_id: str) -> None:
    value = label_value(driver_id)
    assert re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", value)
    assert value.endswith("20260102T030405-9f86d081")
    assert set(KUBERNETES.labels(driver_id).values()) == {value}
