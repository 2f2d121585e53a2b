"""What a drill adds to a verification: it knows more of its fork than the fork's checkpoint says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamwarden.adapters.store import Store
from streamwarden.checkpoint.topics import TopicRange
from streamwarden.drills.records.codec import decode, encode
from streamwarden.drills.records.types import Copies, ForkRecord, ForkView
from streamwarden.errors import VerificationError
from streamwarden.health.window import PartitionLag
from streamwarden.lifecycle.driver import DriverRecord
from streamwarden.services.drilling import judging
from streamwarden.services.drilling.archive import DrillArchive
from streamwarden.services.drilling.judging import ForkVerifier, of_others, uncommitted
from streamwarden.services.fleet.recorded_starts import keep_start
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sources.files import FilesSource
from streamwarden.sources.kafka import reading_back
from streamwarden.sources.kafka.source import KafkaSource
from streamwarden.stream.spec import StreamSpec, TriggerSpec
from streamwarden.verification.reconciliation import Reconciliation

RIGHT = Reconciliation(expected=1, actual=1, lost=0, duplicated=0, unexpected=0, wrong=0)


@pytest.fixture(autouse=True)
def without_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test here asks Great Expectations, whose import takes seconds."""
    monkeypatch.setattr(judging, "_import_beside", lambda: None)


@pytest.fixture
def origin(tmp_path: Path) -> StreamSpec:
    return StreamSpec(
        name="flights",
        job="job.py",
        source=FilesSource(path=str(tmp_path / "input")),
        sink=ParquetSink(path=str(tmp_path / "output")),
        checkpoint=str(tmp_path / "checkpoint"),
        trigger=TriggerSpec(available_now=True),
    )


def view(origin: StreamSpec, *, batch: int | None, **changes: Any) -> ForkView:
    spec = replace(origin, name="flights_fork", checkpoint=f"{origin.checkpoint}-fork", **changes)
    return ForkView(
        stream=spec.name,
        origin=origin.name,
        checkpoint=spec.checkpoint,
        output=None,
        batch=batch,
        unseen=500,
        batches_left=1,
        input_digest="",
        spec=spec,
    )


def launched(store: Store, spec: StreamSpec, *times: float) -> None:
    for at in times:
        record = DriverRecord(
            driver_id=f"{spec.name}-{at}",
            stream=spec.name,
            checkpoint=spec.checkpoint,
            token=1,
            folder="",
            launched_by="test",
            launched_at=at,
        )
        store.drivers.launched(record)
        keep_start(store, spec, record.driver_id, at=at)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the verification is asked; it is tested by itself."""
    seen: dict[str, Any] = {}

    def verify(spec: StreamSpec, **options: Any) -> Reconciliation:
        seen.update(options)
        return RIGHT

    monkeypatch.setattr(judging, "verify", verify)
    return seen


def test_the_starts_of_the_origin_before_the_fork_count_and_no_later_ones(
    store: Store, origin: StreamSpec, asked: dict[str, Any]
) -> None:
    fork = view(origin, batch=4)
    launched(store, origin, 1.0, 2.0, 9.0)
    launched(store, replace(origin, name=fork.stream, checkpoint=fork.checkpoint), 5.0, 7.0)
    ForkVerifier(store, lambda name: origin, DrillArchive(Path(origin.checkpoint).parent)).reconcile(fork)
    assert [start.at for start in asked["starts"]] == [1.0, 2.0, 5.0, 7.0]
    assert (asked["bounded_from"], asked["owed"]) == (5, 0)
    ForkVerifier(store, lambda name: origin, DrillArchive(Path(origin.checkpoint).parent)).reconcile(
        replace(fork, batch=None)
    )
    assert [start.at for start in asked["starts"]] == [5.0, 7.0], "it took over no batch of its origin"
    assert asked["bounded_from"] == 0


RANGES = (TopicRange("flights", 0, 0, 300), TopicRange("flights", 1, 100, 300))


def test_a_bounded_fork_owes_every_record_that_the_broker_had_and_still_has(
    store: Store, origin: StreamSpec, asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The retention may remove records between the fork and its first driver: the broker says which, not the run."""
    oldest = {0: 0, 1: 100}

    def lag(*_: object, **__: object) -> tuple[PartitionLag, ...]:
        return tuple(PartitionLag(partition=p, planned=0, committed=0, first=at, last=900) for p, at in oldest.items())

    monkeypatch.setattr(reading_back, "lag_of", lag)
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA", '{"conn_type": "kafka", "extra": {"bootstrap.servers": "localhost:1"}}')
    topic = KafkaSource(connection="kafka", topic="flights")
    verifier = ForkVerifier(store, lambda name: origin, DrillArchive(Path(origin.checkpoint).parent))
    fork = replace(view(origin, batch=None, source=topic), ranges=RANGES)
    verifier.reconcile(fork)
    assert asked["owed"] == 500
    oldest |= {0: 40, 1: 350}
    verifier.reconcile(fork)
    assert asked["owed"] == 260, "40 of partition 0 and all of partition 1 are gone"
    verifier.reconcile(replace(fork, bounded=False))
    assert (asked["owed"], asked["bounded_from"]) == (0, None), "the drill counts the records of a copied topic"


def test_what_a_fork_has_to_read_of_a_topic_is_kept_with_it(origin: StreamSpec) -> None:
    fork = replace(view(origin, batch=None), ranges=RANGES)
    stored = encode(fork)
    assert decode(ForkRecord, stored).ranges == RANGES
    del stored["ranges"]
    assert decode(ForkRecord, stored).ranges == (), "an earlier version made it"


def test_a_broker_that_does_not_answer_leaves_no_verdict(
    store: Store, origin: StreamSpec, asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_KAFKA", raising=False)
    topic = KafkaSource(connection="kafka", topic="flights")
    fork = replace(view(origin, batch=None, source=topic), ranges=RANGES)
    with pytest.raises(VerificationError, match="it is unknown which records the topic still keeps"):
        ForkVerifier(store, lambda name: origin, DrillArchive(Path(origin.checkpoint).parent)).reconcile(fork)


def test_rows_that_a_copy_has_changed_are_a_problem_only_if_the_job_should_drop_them(
    store: Store, origin: StreamSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = {"rows_changed_by_copies": 4}
    asked: list[Any] = []

    def verify(spec: StreamSpec, **options: Any) -> Reconciliation:
        asked.append(set(options["copies"]))
        return replace(RIGHT, notes=changed)

    monkeypatch.setattr(judging, "verify", verify)
    verifier = ForkVerifier(store, lambda name: origin, DrillArchive(Path(origin.checkpoint).parent))
    fork, copies = view(origin, batch=None), Copies(files=("left/a-again.json",))
    assert verifier.reconcile(fork).problems == ()
    assert verifier.reconcile(fork, copies=copies).problems == ()
    (problem,) = verifier.reconcile(fork, copies=replace(copies, deduplicated=True)).problems
    assert problem == "4 rows differ from those of the input without the copy of a file"
    changed["rows_changed_by_copies"] = 0
    assert verifier.reconcile(fork, copies=replace(copies, deduplicated=True)).problems == ()
    assert asked == [set(), {"a-again.json"}, {"a-again.json"}, {"a-again.json"}]


def test_records_of_a_batch_that_never_was_are_a_problem_of_a_fork_that_ended_by_itself(origin: StreamSpec) -> None:
    fork = view(origin, batch=None)
    stray = replace(RIGHT, notes={"uncommitted_records": 2})
    assert uncommitted(stray.notes, fork) == ["2 records in the fork's topic are from batches that it never committed"]
    assert uncommitted({"uncommitted_records": 0}, fork) == uncommitted({}, fork) == []
    assert uncommitted(stray.notes, replace(fork, bounded=False)) == [], "it was asked to stop, maybe within a batch"


def test_the_verdict_on_a_fork_names_records_of_others_and_of_batches_that_never_were(
    store: Store, origin: StreamSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = {"records_of_others": 1, "uncommitted_records": 2}
    monkeypatch.setattr(judging, "verify", lambda *_, **__: replace(RIGHT, notes=notes))
    judged = ForkVerifier(store, lambda name: origin, DrillArchive(Path(origin.checkpoint).parent)).reconcile(
        view(origin, batch=None)
    )
    assert len(judged.problems) == 2


def test_records_of_another_query_in_the_topic_of_a_fork_are_a_problem() -> None:
    assert of_others({}) == []
    assert of_others({"records_of_others": 0}) == []
    [problem] = of_others({"records_of_others": 3})
    assert problem.startswith("3 records in the fork's topic are not from its query")
