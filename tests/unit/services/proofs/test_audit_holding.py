"""What an audit holds of a checkpoint that Spark purges while it reads, and how it reads one that it cannot hold.

The reader is a function here: it does to the stream's checkpoint what Spark's purge does, and then reads.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.formats.layout import COMMITS, OFFSETS, SINK_LOG, STATE
from streamwarden.checkpoint.formats.state import SSTS, state_stores
from streamwarden.checkpoint.integrity import check_state_file, has_tables, snapshot_files
from streamwarden.errors import VerificationError
from streamwarden.services.auditing import auditing
from streamwarden.services.auditing.auditing import Pace, audit, pace, requested
from streamwarden.services.auditing.records import FOLDER
from streamwarden.services.auditing.work import WORK, remove_abandoned, work_folder
from streamwarden.services.forks.copying import hold
from streamwarden.stream.spec import StreamSpec
from streamwarden.verification.comparing.balance import Audit, Books, Outcome, Range, Result
from support.airflow.harness import wait_for
from support.checkpoints import recorded
from support.checkpoints.recorded import Unpack, stream_of

KINDS = ("rocksdb", "changelog", "hdfs", "format2", "processor", "join")
BALANCED = Result(books=Books(operator="aggregation", amounts=("n",), counts="n", entries=1))


@pytest.fixture
def run(unpack: Unpack, tmp_path: Path) -> Callable[[str], StreamSpec]:
    """The run of an archive, whose first batch Spark has already purged."""

    def made(kind: str) -> StreamSpec:
        checkpoint = unpack(f"spark-4.3.0-{kind}", tmp_path / "origin")
        for log in (OFFSETS, COMMITS):
            (checkpoint / log / "0").unlink()
        return replace(stream_of(tmp_path / "origin", files=17), data=str(tmp_path / "data"))

    return made


def purge(spec: StreamSpec, upto: int) -> None:
    """Remove the logs up to a batch, as Spark does, and all state, of which Spark would keep what is newer."""
    for log in (OFFSETS, COMMITS):
        for batch in range(upto + 1):
            (Path(spec.checkpoint) / log / str(batch)).unlink(missing_ok=True)
    shutil.rmtree(Path(spec.checkpoint) / STATE, ignore_errors=True)


def can_be_read(document: dict[str, Any]) -> bool:
    """Whether the state before and after the audited batches is all there, each file as Spark wrote it."""
    checkpoint = open_path(document["checkpoint"])
    stores = state_stores(checkpoint)
    try:
        for store in stores:
            for batch in {document["after"], document["upto"]} - {-1}:
                load = store.load(batch + 1)
                assert load.complete
                for file in filter(None, (load.snapshot, *load.changes)):
                    check_state_file(checkpoint, store, file, "lz4")
    except (AssertionError, FileNotFoundError):
        return False
    return bool(stores)


@dataclass
class Reader:
    """Stands where Spark reads. `before` is what happens to the stream meanwhile; it gets the request."""

    before: Callable[[dict[str, Any]], None] = lambda document: None
    shares: list[float] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, name: str, spec: StreamSpec, folder: Path, *, share: float, **options: Any) -> int:
        self.shares.append(share)
        self.requests.append(json.loads((folder / "request.json").read_text()))
        self.before(self.requests[-1])
        result = BALANCED if can_be_read(self.requests[-1]) else Result(failed="a file does not exist")
        (folder / "result.json").write_text(result.to_json())
        return 0


def read_by(patch: pytest.MonkeyPatch, reader: Reader) -> Reader:
    patch.setattr(auditing, "run_program", reader)
    return reader


def without_links(patch: pytest.MonkeyPatch) -> None:
    """As between two disks."""

    def refused(source: str, target: Path) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), source)

    patch.setattr(os, "link", refused)


def work(spec: StreamSpec) -> list[Path]:
    """The folders of audits that are there now."""
    return [path for path in (Path(spec.data) / FOLDER / WORK).iterdir() if path.is_dir()]


@pytest.mark.parametrize("kind", KINDS)
def test_a_purge_while_the_audit_reads_does_not_end_it(
    run: Callable[[str], StreamSpec], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    spec = run(kind)
    reader = read_by(monkeypatch, Reader(lambda document: purge(spec, document["upto"])))
    found = audit(spec, share=0.04)
    assert found.outcome is Outcome.BALANCED
    assert found.range is not None
    assert found.range.after == 1  # the oldest batch that is kept, although it is the next one to be purged
    assert reader.shares == [0.04]
    assert work(spec) == []


def test_an_audit_names_a_file_that_changed_after_it_was_read_and_accuses_nobody(
    run: Callable[[str], StreamSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file of a batch that is not audited may change. Without a change the audit balances, see above."""
    spec = run("rocksdb")
    reader = read_by(monkeypatch, Reader())
    folder = Path(str(spec.source.path))
    audited = audit(spec).range
    assert audited is not None
    (folder / f"in {audited.after:03d}.json").write_text("{}")
    assert audit(spec).outcome is Outcome.BALANCED
    (folder / f"in {audited.after + 1:03d}.json").write_text("{}")
    found = audit(spec)
    assert found.outcome is Outcome.UNDECIDED
    assert (
        f"changed after it was read, so that nothing can be proven: in {audited.after + 1:03d}.json" in found.sentence
    )
    assert len(reader.requests) == 2, "nothing is read for an audit that can prove nothing"


def test_no_byte_of_state_is_copied(run: Callable[[str], StreamSpec], monkeypatch: pytest.MonkeyPatch) -> None:
    spec = run("rocksdb")
    seen: list[bool] = []

    def look(document: dict[str, Any]) -> None:
        (folder,) = work(spec)
        for path in (folder / "checkpoint").rglob("*.*"):
            origin = Path(spec.checkpoint) / path.relative_to(folder / "checkpoint")
            seen.append(path.samefile(origin))

    read_by(monkeypatch, Reader(look))
    audit(spec)
    assert seen
    assert all(seen)


def test_a_state_that_was_only_linked_in_part_is_left_out(
    run: Callable[[str], StreamSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snapshot of RocksDB names its tables. It may still be there when one of them is purged."""
    spec = run("rocksdb")
    read_by(monkeypatch, Reader())
    assert audit(spec, last=1).range == Range(after=2, upto=3)
    checkpoint = open_path(spec.checkpoint)
    (store, *_) = state_stores(checkpoint)
    second, third = (set(snapshot_files(checkpoint / store.folder / f"{version}.zip")) for version in (2, 3))
    (Path(spec.checkpoint) / store.folder / SSTS / min(third - second)).unlink()
    (store, *_) = state_stores(checkpoint)
    snapshots = [store.load(version).snapshot for version in (2, 3)]
    assert [has_tables(checkpoint, store, snapshot) for snapshot in snapshots if snapshot] == [True, False]
    assert audit(spec, last=1).impossible == "the logs or the state of too few batches are kept"


def test_a_file_that_vanishes_before_its_turn_is_left_out(
    run: Callable[[str], StreamSpec], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    spec = run("changelog")
    link = os.link

    def purging(source: str, target: Path) -> None:
        (Path(spec.checkpoint) / OFFSETS / "1").unlink(missing_ok=True)
        link(source, target)

    monkeypatch.setattr(os, "link", purging)
    held = hold(open_path(spec.checkpoint), tmp_path)
    made = requested(spec, held=held)
    assert not isinstance(made, Audit)
    assert made.range.after == 2


def test_an_audit_of_a_stream_that_ended_badly_leaves_no_folder(
    run: Callable[[str], StreamSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = run("changelog")

    def fails(document: dict[str, Any]) -> None:
        raise subprocess.TimeoutExpired("spark-submit", 1.0)

    read_by(monkeypatch, Reader(fails))
    with pytest.raises(VerificationError, match="took longer than"):
        audit(spec)
    assert work(spec) == []


def test_files_of_a_killed_audit_are_removed_and_those_of_a_running_one_stay(tmp_path: Path) -> None:
    spec = StreamSpec(name="counts", job="", checkpoint="", data=str(tmp_path))
    program = (
        "import sys, time\n"
        "from streamwarden.services.auditing.work import work_folder\n"
        "from streamwarden.stream import StreamSpec\n"
        "with work_folder(StreamSpec(name='counts', job='', checkpoint='', data=sys.argv[1])) as folder:\n"
        "    (folder / 'held').write_text('x')\n"
        "    time.sleep(600)"
    )
    process = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)])
    try:
        wait_for("its folder", lambda: list((tmp_path / FOLDER).rglob("held")), timeout=60)
        assert remove_abandoned(tmp_path) == 0
        (left,) = work(spec)
    finally:
        process.kill()
        process.wait()
    assert left.is_dir()
    with work_folder(spec) as mine:
        assert work(spec) == [mine]
        assert mine.stat().st_mode & 0o777 == 0o700
        assert remove_abandoned(tmp_path) == 0
    assert work(spec) == []


# A checkpoint that cannot be held.


@pytest.mark.parametrize(
    ("spare", "period", "share", "expected"),
    [
        (50, 60.0, 0.04, Pace(17, 0.04)),  # a batch a minute: 1000 s are 17 of them
        (50, 20.0, 0.04, Pace(50, 0.04)),  # exactly as long as the spare batches last
        (50, 2.0, 0.04, Pace(50, 0.4)),  # they last 100 s
        (50, 0.5, 0.04, Pace(50, 1.0)),  # no pause helps
        (80, 2.0, 0.25, Pace(80, 0.25)),
        (0, 2.0, 0.04, Pace(0, 1.0)),
    ],
)
def test_the_pauses_are_as_long_as_the_kept_batches_last(
    spare: int, period: float, share: float, expected: Pace
) -> None:
    assert pace(spare, period, 40.0, share) == expected


@pytest.mark.parametrize(("apart", "shares"), [(3600.0, [0.04] * 3), (60.0, [0.111, 0.667, 1.0])])
def test_each_attempt_at_a_checkpoint_without_links_expects_to_take_twice_as_long(
    run: Callable[[str], StreamSpec], monkeypatch: pytest.MonkeyPatch, apart: float, shares: list[float]
) -> None:
    """It hurries only if Spark would otherwise purge what it reads before it could have read it."""
    spec = run("changelog")
    for batch in range(1, 14):
        commit = Path(spec.checkpoint) / COMMITS / str(batch)
        recorded.replace(commit, commit.read_bytes())  # other tests share the file, and its time
        os.utime(commit, (1e9 + apart * batch,) * 2)

    without_links(monkeypatch)
    reader = read_by(monkeypatch, Reader(lambda document: purge(spec, document["after"])))
    with pytest.raises(VerificationError, match="purged what the audit was reading, in each of 3 attempts"):
        audit(spec, share=0.04)
    assert [round(each, 3) for each in reader.shares] == shares
    assert {each["checkpoint"] for each in reader.requests} == {spec.checkpoint}
    assert work(spec) == []


def test_a_damaged_log_ends_the_audit_before_it_reads(run: Callable[[str], StreamSpec], tmp_path: Path) -> None:
    spec = run("changelog")
    newest = Path(spec.checkpoint) / OFFSETS / "13"
    newest.unlink()
    newest.write_text("")
    with pytest.raises(VerificationError, match="the logs of the checkpoint or of the output cannot be read"):
        audit(spec)
    assert (Path(str(spec.sink.path)) / SINK_LOG).is_dir()
