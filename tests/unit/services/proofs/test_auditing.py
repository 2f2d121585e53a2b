"""What an audit reads of a sink's manifest, and what becomes of its result, without Spark."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.adapters.store import Store
from streamwarden.checkpoint.formats.layout import SINK_LOG
from streamwarden.health.check_relations import AUDIT_BALANCE
from streamwarden.lifecycle.supervision.stop import Desired, DesiredState
from streamwarden.services.auditing.auditing import audit
from streamwarden.services.auditing.reading import input_of, notes_of, output_of
from streamwarden.services.auditing.records import record, settle
from streamwarden.sources import KINDS
from streamwarden.sources.base import FinishedRun, Source
from streamwarden.stream.spec import SourceSpec, StreamSpec
from streamwarden.verification.comparing.balance import Audit, Books, Entry, Outcome, Range, Result
from support.streams.projects import Project

COMMITTED = {batch: 1_000.0 + batch for batch in range(20)}


@pytest.fixture
def spec(tmp_path: Path) -> StreamSpec:
    project = Project.make(tmp_path / "project")
    return project.load(project.stream("counts"))


def entry(spec: StreamSpec, name: str, *files: tuple[str, float], gone: bool = False, size: int = 0) -> None:
    """An entry of the manifest. Each file has a name and the time at which it was written, Unix seconds."""
    folder = Path(str(spec.sink.path))
    (folder / SINK_LOG).mkdir(parents=True, exist_ok=True)
    lines = []
    for file, at in files:
        path = folder / file
        if not gone:
            path.write_text("")
        lines.append(
            json.dumps({"path": path.as_uri(), "size": size, "modificationTime": int(at * 1000), "action": "add"})
        )
    (folder / SINK_LOG / name).write_text("\n".join(["v1", *lines]))


def names(spec: StreamSpec, after: int, upto: int) -> list[str]:
    found = output_of(spec, Range(after=after, upto=upto), COMMITTED)
    return [uri.rpartition("/")[2] for uri in found.request["files"]]


def test_the_files_of_a_range_are_those_of_its_entries(spec: StreamSpec) -> None:
    for batch in range(4):
        entry(spec, str(batch), (f"part-{batch}", 1_000.0 + batch - 0.5))
    assert names(spec, -1, 2) == ["part-0", "part-1", "part-2"]
    assert names(spec, 1, 3) == ["part-2", "part-3"]


def test_compact_entry_contributes_files_written_after_the_previous_batch(spec: StreamSpec) -> None:
    entry(spec, "9.compact", *((f"part-{batch}", 1_000.0 + batch - 0.5) for batch in range(10)))
    entry(spec, "10", ("part-10", 1_009.5))
    assert names(spec, 6, 10) == ["part-7", "part-8", "part-9", "part-10"]
    assert names(spec, 9, 10) == ["part-10"]
    assert len(names(spec, -1, 10)) == 11


def test_a_lost_entry_and_a_lost_file_are_problems(spec: StreamSpec) -> None:
    entry(spec, "0", ("part-0", 1_000.0))
    entry(spec, "2", ("part-2", 1_002.0), gone=True)
    found = output_of(spec, Range(after=-1, upto=2), COMMITTED)
    assert found.problems == (
        "the manifest has no entry for the committed batch 1",
        "the manifest names part-2, which is not there",
    )
    assert output_of(spec, Range(after=1, upto=2), COMMITTED).problems == found.problems[1:]


def test_a_file_that_was_cut_is_a_problem(spec: StreamSpec) -> None:
    entry(spec, "0", ("part-0", 1_000.0), size=1_100)
    found = output_of(spec, Range(after=-1, upto=0), COMMITTED)
    assert found.problems == ("the data file part-0 has not the size in the manifest (1,100 bytes)",)


def test_names_that_spark_takes_for_patterns_are_noted(spec: StreamSpec) -> None:
    read = {
        "files": {"/in": [("file:///in/a%20b.json", 0), ("file:///in/c%5B1%5D.json", 0), ("file:///in/d*.json", 1)]}
    }
    kinds = {name: {} for name in KINDS}
    (note,) = notes_of(spec, kinds | read)
    assert note.startswith(
        "batch 0 read 1 of its 2 files more than once: Spark takes the name 'c[1].json' for a pattern"
    )


def test_an_output_without_a_manifest_is_a_problem(spec: StreamSpec) -> None:
    found = output_of(spec, Range(after=-1, upto=2), COMMITTED)
    assert found.problems == ("the output has no _spark_metadata, which lists the files of the committed batches",)


def logs(checkpoint: Path, *ends: tuple[str, ...], began: tuple[str, ...]) -> None:
    """The logs of a query: the end of each source in each batch, and where the sources began."""
    (checkpoint / "offsets").mkdir(parents=True)
    for batch, sources in enumerate(ends):
        (checkpoint / "offsets" / str(batch)).write_text("\n".join(["v1", '{"batchWatermarkMs":0}', *sources]))
    for place, text in enumerate(began):
        (checkpoint / "sources" / str(place)).mkdir(parents=True)
        (checkpoint / "sources" / str(place) / "0").write_text(f"v1\n{text}")


def test_input_of_a_range_lies_between_the_offsets_of_its_batches(spec: StreamSpec, tmp_path: Path) -> None:
    topics = ['{"events":{"0":4,"1":2}}', '{"events":{"0":4,"1":5}}', '{"events":{"0":9,"1":5}}']
    ends = zip(topics, ("3", "5", "8"), strict=True)
    logs(tmp_path / "c", *ends, began=('{"events":{"0":1,"1":0}}', "1700000000000"))
    checkpoint = open_path(str(tmp_path / "c"))
    read = input_of(spec, checkpoint, Range(after=-1, upto=2))
    assert read["kafka"] == {"events": [(0, 1, 4, 0), (1, 0, 2, 0), (1, 2, 5, 1), (0, 4, 9, 2)]}
    assert read["rate"] == (1_700_000_000_000, [(0, 3, 0), (3, 5, 1), (5, 8, 2)])
    newest = input_of(spec, checkpoint, Range(after=1, upto=2))
    assert newest["kafka"] == {"events": [(0, 4, 9, 2)]}
    assert newest["rate"] == (1_700_000_000_000, [(5, 8, 2)])


def test_indistinguishable_sources_are_left_out(spec: StreamSpec, tmp_path: Path) -> None:
    topic = '{"events":{"0":4}}'
    logs(tmp_path / "c", (topic, topic, "3", "3"), began=('{"events":{"0":1}}',) * 2 + ("17", "17"))
    read = input_of(spec, open_path(str(tmp_path / "c")), Range(after=-1, upto=0))
    assert (read["kafka"], read["rate"]) == ({}, None)


def test_a_stream_without_batches_or_declared_places_is_not_audited(spec: StreamSpec) -> None:
    assert audit(spec).impossible == "no batch was committed yet"
    script = audit(replace(spec, source=SourceSpec()))
    assert script.outcome is Outcome.UNDECIDED
    assert "opens its source or its sink itself" in str(script.impossible)


LOST = Audit(
    stream="counts",
    range=Range(after=3, upto=8),
    entries=9,
    unbalanced=1,
    amounts=["n"],
    worst=[Entry(key={"carrier": "AA"}, sides={"input": {"n": 3}, "output": {"n": 1}}, batch=7)],
)
RIGHT = replace(LOST, unbalanced=0, worst=[])


def test_a_result_survives_the_way_through_its_file() -> None:
    sides = {"input": {"n": 3, "price": Decimal("1.10"), "share": 0.5}, "output": {"n": None}}
    entry = Entry(key={"carrier": "AA"}, sides=sides, end_ms=60_000, read_by=Range(after=3, upto=5), exclusive=False)
    entry = replace(entry, slack={"share": 1e-9})
    books = Books(operator="a join", amounts=("n", "price"), left_out={"x": "why"}, entries=2, worst=(entry,), read=4)
    for result in (
        Result(books=books),
        Result(impossible="it keeps no state", problems=("x",)),
        Result(failed="OSError: no"),
    ):
        assert Result.of_json(result.to_json()) == result


def open_reasons(store: Store) -> list[str]:
    return [each.reason for each in store.incidents.open("counts") if each.check == AUDIT_BALANCE]


def test_books_that_do_not_balance_are_an_incident_with_evidence(store: Store, tmp_path: Path) -> None:
    evidence = record(LOST, tmp_path, store, 1_000.0)
    document = json.loads(evidence.read_text())
    assert evidence.parent == tmp_path / "audits" / "counts"
    assert evidence.parent.stat().st_mode & 0o777 == 0o700
    assert document["batches"] == [7]
    assert document["worst"][0]["differences"] == {"n": 2}
    assert open_reasons(store) == [LOST.sentence]
    record(LOST, tmp_path, store, 1_001.0)
    assert len(open_reasons(store)) == 1


@pytest.mark.parametrize(
    ("later", "resolved"),
    [
        (RIGHT, True),
        (replace(RIGHT, range=Range(after=-1, upto=20)), True),
        (replace(RIGHT, range=Range(after=8, upto=20)), False),
        (replace(RIGHT, impossible="of its operator"), False),
    ],
)
def test_only_books_that_balance_over_the_same_batches_resolve_it(
    store: Store, tmp_path: Path, later: Audit, resolved: bool
) -> None:
    record(LOST, tmp_path, store, 1_000.0)
    record(later, tmp_path, store, 2_000.0)
    assert bool(open_reasons(store)) is not resolved


def test_a_person_can_settle_it(store: Store, tmp_path: Path) -> None:
    record(LOST, tmp_path, store, 1_000.0)
    assert settle(store, "counts", "restored", 2_000.0)
    assert not open_reasons(store)
    assert not settle(store, "counts", "restored", 3_000.0)


def test_a_stream_that_was_stopped_has_the_incident_too(store: Store, tmp_path: Path) -> None:
    store.stops.set_desired(
        DesiredState(stream="counts", desired=Desired.STOPPED, changed_by="x", reason="y", changed_at=1.0)
    )
    record(LOST, tmp_path, store, 1_000.0)
    assert open_reasons(store)


def test_lint_and_a_verification_see_names_that_spark_takes_for_patterns(spec: StreamSpec, tmp_path: Path) -> None:
    folder = Path(str(spec.source.path))
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("a b.json", "c[1].json"):
        (folder / name).write_text("{}")
    assert isinstance(spec.source, Source)
    assert spec.source.pattern_names(spec) == ["c[1].json"]
    checkpoint = tmp_path / "c"
    logs(checkpoint, ('{"logOffset":0}',), began=("",))
    files = [
        {"path": file.as_uri(), "timestamp": int(file.stat().st_mtime * 1000), "batchId": 0}
        for file in (folder / "a b.json", folder / "c[1].json")
    ]
    (checkpoint / "sources" / "0" / "0").write_text("\n".join(["v1", *map(json.dumps, files)]))
    run = FinishedRun(checkpoint=open_path(str(checkpoint)), committed=0, into=tmp_path, bounded_from=0)
    (problem,) = spec.source.read_back(spec, run).problems
    assert problem.startswith("batch 0 read 1 of its 2 files more than once")
    recursive = replace(spec, source=replace(spec.source, options={"recursiveFileLookup": "true"}))
    assert recursive.source.pattern_names(recursive) == ()
    assert recursive.source.read_back(recursive, run).problems == ()
