"""What an application waits for, as the managers of clusters describe it."""

from __future__ import annotations

from typing import Any

import pytest

from streamwarden.clusters import manager_of
from streamwarden.clusters.waiting import Waiting

SAID = "Application is added to the scheduler and is not yet activated."


def described(state: str, **more: Any) -> dict[str, Any]:
    """An application as the ResourceManager's REST API describes it."""
    return {"state": state, "queue": "etl", "diagnostics": "", "runningContainers": -1, **more}


@pytest.mark.parametrize(
    ("application", "expected"),
    [
        (described("ACCEPTED", diagnostics=f"{SAID} "), Waiting(what="resources in queue etl", said=SAID)),
        (described("SUBMITTED"), Waiting(what="resources in queue etl")),
        (described("RUNNING", runningContainers=3, resourceRequests=[{"numContainers": 1}]), None),
        (described("RUNNING", runningContainers=1, resourceRequests=[{"numContainers": 0}]), None),
        (described("RUNNING", runningContainers=1), None),
        (
            described("RUNNING", runningContainers=1, resourceRequests=[{"numContainers": 2}, {"numContainers": 0}]),
            Waiting(what="resources in queue etl", said="none of 2 executors has a container"),
        ),
        (described("FINISHED"), None),
        (described("KILLED", diagnostics="killed by ann"), None),
    ],
)
def test_yarn_says_what_an_application_waits_for(application: dict[str, Any], expected: Waiting | None) -> None:
    waits = manager_of("yarn").waits
    assert waits is not None
    assert waits(application) == expected


def test_the_words_repeat_the_managers() -> None:
    assert Waiting(what="resources in queue etl", said="full").words == "resources in queue etl (full)"
    assert Waiting(what="resources in queue etl").words == "resources in queue etl"
