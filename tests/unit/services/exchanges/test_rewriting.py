"""A checkpoint that was rewritten takes the place of a stopped stream's one, with a batch that the output lacks.

How it is killed and completed is shown by `services/savepoints/test_restoring.py`: both go the same way.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.adapters.store import Store
from streamwarden.checkpoint.diagnosis.report import read_checkpoint
from streamwarden.errors import CheckpointError, LaunchRefused
from streamwarden.lifecycle.events import EventKind
from streamwarden.lifecycle.exchanges.exchange import Exchange, journal_of
from streamwarden.services.analysis.history import history
from streamwarden.services.exchanges.exchanging import Change, Exchanged, exchange
from streamwarden.services.fleet.claims import claim
from streamwarden.services.fleet.launch_check import require_fit
from streamwarden.services.forks.forks import fork
from streamwarden.services.savepoints.creating import create
from streamwarden.services.savepoints.describing import Author
from streamwarden.sinks.files.empty_entries import add_empty
from streamwarden.sinks.files.output import read_output
from streamwarden.sinks.kafka.sink import KafkaSink
from streamwarden.stream.spec import SinkSpec, StreamSpec
from support.checkpoints.recorded import Unpack, stream_of

NEWEST = 13


@dataclass(frozen=True)
class OneBatchMore(Change):
    """The stream's checkpoint with a batch that reads nothing and changes no state, as Spark's repartition adds one."""

    spec: StreamSpec
    batch: int

    def planned(self, checkpoint: str, stamp: str) -> Exchange:
        metadata = json.loads(Path(checkpoint, "metadata").read_text())
        return Exchange(
            operation="repartition",
            subject="8 partitions",
            command="streamwarden repartition minutes 8",
            stream=self.spec.name,
            query_id=metadata["id"],
            batch=self.batch,
            stamp=stamp,
            by="ann",
            reason="more cores",
            checkpoint=checkpoint,
        )

    def fill(self, exchange: Exchange) -> None:
        made = Path(exchange.prepared)
        shutil.copytree(exchange.checkpoint, made, copy_function=os.link)
        for log in ("offsets", "commits"):
            shutil.copy(made / log / str(self.batch - 1), made / log / str(self.batch))
        for changes in made.glob(f"state/**/{self.batch}.changelog"):
            shutil.copy(changes, changes.with_name(f"{self.batch + 1}.changelog"))


@pytest.fixture
def spec(unpack: Unpack, tmp_path: Path) -> StreamSpec:
    """Batches 0 to 13 are committed."""
    unpack("spark-4.3.0-changelog", tmp_path / "origin")
    return replace(stream_of(tmp_path / "origin", files=17), data=str(tmp_path / "data"))


def rewritten(store: Store, spec: StreamSpec, batch: int = NEWEST + 1, subject: str = "8 partitions") -> Exchanged:
    return exchange(store, spec, lambda: OneBatchMore(spec, batch), subject)


def tree(spec: StreamSpec) -> dict[str, bytes]:
    root = Path(spec.checkpoint).parent
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_the_added_batch_is_in_the_output_too(spec: StreamSpec, store: Store, tmp_path: Path) -> None:
    """Spark fails at the next compaction of the manifest, and every reader before, if an entry lacks."""
    output, before = Path(str(spec.sink.path)), tree(spec)
    rows = read_output(output, committed=NEWEST)
    done = rewritten(store, spec)
    assert done.output == "batch 14, which has no rows, was entered in the manifest"
    assert {f"checkpoint/{name}" for name in _names(Path(str(done.aside)))} >= {
        name for name in before if name.startswith("checkpoint/")
    }
    report = read_checkpoint(open_path(spec.checkpoint), output=open_path(output))
    assert (report.findings, report.position.committed, report.sink_newest) == ((), NEWEST + 1, NEWEST + 1)
    after = read_output(output, committed=NEWEST + 1)
    assert (after.count, after.problems) == (rows.count, ())
    assert create(spec, None, Author(by="ann", reason="")).batch == NEWEST + 1
    assert fork(spec, into=tmp_path / "fork", rewind=0).batch == NEWEST + 1


def _names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_a_batch_that_compacts_repeats_what_the_manifest_lists(spec: StreamSpec) -> None:
    """Batch 19 compacts, as 9 did: its entry is a compact file."""
    output = Path(str(spec.sink.path))
    rows = read_output(output, committed=NEWEST).count
    assert add_empty(open_path(output), 19)
    assert add_empty(open_path(output), 19) == "", "again, as after a kill"
    assert {path.name for path in (output / "_spark_metadata").glob("*.compact")} == {"9.compact", "19.compact"}
    seen = read_output(output, committed=19)
    assert (seen.count, seen.problems) == (rows, ())
    (output / "_spark_metadata/18").unlink()
    assert read_output(output, committed=19).count == rows, "nothing before it is read any more"


def test_a_launch_goes_on_after_the_added_batch(spec: StreamSpec, store: Store) -> None:
    """The store knows batch 13, and the launch looks at it still: it was not put back."""
    record, lease = claim(store, Path(spec.data), spec, launched_by="test", ttl=30, now=time.time() - 100)
    store.drivers.launched(record)
    store.leases.release(lease, now=time.time() - 90)
    query_id = json.loads(Path(spec.checkpoint, "metadata").read_text())["id"]
    store.batches.upsert_logged(spec.name, query_id, NEWEST, time.time() - 60, time.time() - 60)
    done = rewritten(store, spec)
    require_fit(store, spec, "d", {}, at=time.time())
    (event,) = [event for event in history(store, spec.name, 0.0) if event.kind is EventKind.REWRITTEN]
    assert (event.who, event.why) == ("ann", "more cores: 8 partitions, batch 14; " + done.output)
    Path(spec.checkpoint, "offsets/14").unlink()
    Path(spec.checkpoint, "offsets/13").unlink()
    for batch in (13, 14):
        Path(spec.checkpoint, f"commits/{batch}").unlink()
    with pytest.raises(LaunchRefused, match="has committed batch 13: it is an older copy"):
        require_fit(store, spec, "d", {}, at=time.time())


def test_an_interrupted_operation_names_itself(spec: StreamSpec, store: Store) -> None:
    """Only the same request completes it."""
    done = rewritten(store, spec)
    shutil.move(Path(str(done.aside), "exchange.json"), journal_of(spec.checkpoint))
    with pytest.raises(LaunchRefused, match="a repartition of the stream was interrupted") as refused:
        require_fit(store, spec, "d", {}, at=time.time())
    assert refused.value.next_step == "complete it: run `streamwarden repartition minutes 8`"
    with pytest.raises(CheckpointError, match="a repartition was interrupted: 8 partitions"):
        rewritten(store, spec, subject="4 partitions")
    again = rewritten(store, spec)
    assert (again.resumed, again.output) == (True, "the output was not touched")


@pytest.mark.parametrize("case", ["planned", "undeclared", "manifest"])
def test_a_batch_whose_number_is_taken_or_that_cannot_be_told_is_refused(
    spec: StreamSpec, store: Store, case: str
) -> None:
    match case:
        case "planned":
            shutil.copy(Path(spec.checkpoint, "offsets/13"), Path(spec.checkpoint, "offsets/14"))
            message = "batch 14 is planned and not committed"
        case "undeclared":
            spec, message = replace(spec, sink=SinkSpec()), "the stream's output is not declared"
        case _:
            Path(str(spec.sink.path), "_spark_metadata/12").unlink()
            message = "a batch cannot be added to it"
    before = tree(spec)
    with pytest.raises(CheckpointError, match=message):
        rewritten(store, spec)
    assert tree(spec) == before


def test_an_output_without_a_record_of_batches_is_not_touched(spec: StreamSpec, store: Store) -> None:
    topic = replace(spec, sink=KafkaSink(connection="k", topic="t", key=("k",)))
    assert rewritten(store, topic).output == "the output was not touched"
