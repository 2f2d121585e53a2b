"""Asks the driver of this pod to end at a batch boundary: its pod is being deleted. Argument: the driver's folder.

The image's entry point runs it at SIGTERM (`packaging/kubernetes/entrypoint.sh`), and lets the driver end by itself.
"""

import sys
import time
from pathlib import Path

from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.supervision.stop import StopRequest
from streamwarden.services.fleet.stopping import stop_policy


def request(folder: Path, now: float) -> StopRequest:
    """The request; the stream is to run again afterwards, since nobody has stopped it."""
    policy = stop_policy(folder)
    term_at = now + policy.batch_deadline
    return StopRequest(
        driver_id=folder.name,
        requested_by="Kubernetes",
        reason="the pod of its driver is being deleted",
        requested_at=now,
        batch_deadline=term_at,
        kill_deadline=term_at + policy.term_deadline,
        restart=True,
    )


def main(folder: Path) -> None:
    """Write the request, unless a person's is there already."""
    if files.read_stop(folder) is None:
        files.write_stop(folder, request(folder, time.time()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
