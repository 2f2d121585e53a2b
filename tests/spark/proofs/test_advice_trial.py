"""Advised settings are tried on forks of a checkpoint that a real Spark wrote, and written if they are a gain."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamwarden.adapters.store import Store
from streamwarden.cli.exit_codes import Exit
from support.checkpoints.recorded import Archives, Unpack
from support.command_line import in_process
from support.streams.advised import FILE, declare_short_trigger, record_history
from support.streams.upgrades import JOB, lay_out

# tests/unit/services/autotuning holds when a trial is written, tests/unit/services/proofs/test_twin_laying.py how the
# batches of a longer trigger are laid: here four Sparks execute them.
pytestmark = [pytest.mark.spark, pytest.mark.full]


@pytest.fixture
def unpack(tmp_path_factory: pytest.TempPathFactory) -> Unpack:
    return Archives(tmp_path_factory.mktemp("archives")).unpack


@pytest.fixture
def project(tmp_path: Path, unpack: Unpack, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Batches of three seconds with a trigger of one second."""
    root = tmp_path / "project"
    spec = lay_out(root, unpack)
    declare_short_trigger(root)
    for name in ("PROJECT", "DATA", "STORE_URL"):
        monkeypatch.delenv(f"STREAMWARDEN_{name}", raising=False)
    with Store(f"sqlite:///{root / 'var/streamwarden.db'}") as store:
        store.migrate()
        record_history(store, spec.checkpoint)
    return root


def test_a_longer_trigger_is_tried_and_written(project: Path) -> None:
    """Half as many batches write the same rows in less time."""
    answer = in_process(project, "advise", "minutes", "--apply", "--json")
    assert answer.code == Exit.OK, answer.err
    trial = answer.json["trial"]
    assert trial["output"]["old"] == trial["output"]["new"] > 0
    assert (trial["gain"], trial["written"]) == (True, True), trial
    assert trial["ratio"] < 0.95
    text = (project / "config/streams/minutes.yaml").read_text()
    assert text == FILE.replace("1 second}", "4 seconds}")
    left = {path.name for path in Path(trial["folder"], "forks").iterdir()}
    assert {"present.log", "advised.log", "advised-again.log", "present-again.log"} <= left
    assert "runs" not in left


def test_a_job_whose_rows_depend_on_the_batch_is_refused(project: Path) -> None:
    """Negative control: it writes when the batch of each row was planned."""
    job = project / "spark_jobs/minutes.py"
    timed = JOB.replace('"n", "total")', '"n", "total", F.current_timestamp().alias("planned"))')
    assert timed != JOB
    job.write_text(timed)
    answer = in_process(project, "advise", "minutes", "--apply")
    assert answer.code == Exit.BAD, answer.out
    assert "the output differs" in answer.err
    assert (project / "config/streams/minutes.yaml").read_text() == FILE
