"""What a pod that is deleted asks of its driver."""

from __future__ import annotations

import json
from pathlib import Path

from streamwarden.clusters.kubernetes import END_OF_A_DRIVER, pod_template
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.supervision.stop import StopRequest
from streamwarden.spark.programs.pod_stop import main, request
from streamwarden.stream.spec import StopPolicy

POLICY = {"batch_deadline": 40.0, "term_deadline": 10.5}


def folder(tmp_path: Path) -> Path:
    made = tmp_path / "counts-0a1b"
    made.mkdir()
    files.write_document(made / files.SPEC, {"stop": POLICY})
    return made


def test_it_asks_for_a_boundary_within_the_streams_own_deadlines(tmp_path: Path) -> None:
    asked = request(folder(tmp_path), 100.0)
    assert (asked.driver_id, asked.batch_deadline, asked.kill_deadline) == ("counts-0a1b", 140.0, 150.5)
    assert asked.restart, "nobody stopped the stream: it runs again, in another pod"


def test_the_drivers_control_loop_reads_the_request(tmp_path: Path) -> None:
    made = folder(tmp_path)
    main(made)
    found = files.read_stop(made)
    assert found is not None
    assert found.requested_by == "Kubernetes"


def test_a_persons_request_stays(tmp_path: Path) -> None:
    made = folder(tmp_path)
    theirs = StopRequest(
        driver_id=made.name, requested_by="ann", reason="r", requested_at=1, batch_deadline=2, kill_deadline=3
    )
    files.write_stop(made, theirs)
    main(made)
    assert files.read_stop(made) == theirs


def test_the_pods_grace_period_is_longer_than_a_stop_may_take() -> None:
    document = json.loads(pod_template(StopPolicy(**POLICY)))
    assert document["spec"]["terminationGracePeriodSeconds"] == 51 + END_OF_A_DRIVER
