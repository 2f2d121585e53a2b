"""A topic of a real broker that gets partitions, loses records, and is recreated, under real drivers: the fork's own.

The topic of the stream has 10,000 flights in four partitions, the oldest of which are gone already: it begins at other
offsets than its copy. Whatever a drill does, nothing of it changes, and no topic of a fork's is left.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamwarden.adapters.connections import connection, variable
from streamwarden.adapters.kafka import scratch_topics
from streamwarden.checkpoint.topics import TopicRange
from streamwarden.drills.records.journal import DrillRun
from streamwarden.drills.records.sections import ForkSpec
from streamwarden.drills.reporting.report import verdict_word
from streamwarden.errors import CheckpointError, DrillAborted, DrillError, SourceError, VerificationError
from streamwarden.lifecycle.forks.places import SCHEMA
from streamwarden.lifecycle.forks.topic_copy import CopiedTopic, Feed
from streamwarden.services.drilling.archive import DrillArchive
from streamwarden.services.drilling.forks import DrillForks
from streamwarden.services.drilling.ports.source import ForkSource
from streamwarden.services.replay.topic import replay_to_topic
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sources.kafka import copy
from streamwarden.sources.kafka.export import export_copied, export_topic, read_messages
from streamwarden.sources.kafka.source import KafkaSource
from streamwarden.stream.spec import StreamSpec
from support.servers.kafka_broker import Broker, broker
from support.spark.drill_project import drill_project, run_drill

pytestmark = pytest.mark.spark

SENT, GONE = 10_000, 100
RECORDS = SENT - 4 * GONE
SOURCE = "{{kind: kafka, connection: events, topic: flights, options: {options}}}"
SOON = 'fetchOffset.retryIntervalMs: "100"'
"""Of a topic that is shorter than what was read from it, Spark asks three times, a second apart."""
OPTIONS = f"{{{SOON}}}"
SILENT = f'{{{SOON}, failOnDataLoss: "false"}}'

COPIED = KafkaSource(connection="events", topic="mixed")
MIXED = StreamSpec(name="mixed", job="job.py", checkpoint="/c", source=COPIED, sink=ParquetSink(path="/out"))


@pytest.fixture(scope="module")
def kafka() -> Iterator[Broker]:
    with broker(secured=True) as made, pytest.MonkeyPatch.context() as patch:
        patch.setenv(variable("events"), made.connection)
        assert replay_to_topic(connection("events"), "flights", limit=SENT).sent == SENT
        for partition in range(4):
            made.forget("flights", GONE, partition)
        made.create("mixed", partitions=3, **{"retention.ms": "-1"})
        made.produce("mixed", [None, "", *map(str, range(40))], at=1_600_000_000_000)
        made.produce("mixed", map(str, range(7)), partitions=(2,), at=1_700_000_000_000)
        yield made


def topics(kafka: Broker) -> dict[str, int]:
    """Topic -> how many partitions it has."""
    admin = kafka.admin()
    found = admin.list_topics(timeout=20).topics.items()
    return {name: len(each.partitions) for name, each in found if not name.startswith("__")}


@contextmanager
def nothing_of_the_streams_changes(kafka: Broker) -> Iterator[None]:
    before = topics(kafka), kafka.ends("flights", 4), kafka.ends("mixed", 3)
    yield
    assert (topics(kafka), kafka.ends("flights", 4), kafka.ends("mixed", 3)) == before


def drilled(kafka: Broker, root: Path, kind: str, options: str = OPTIONS) -> DrillRun:
    source = SOURCE.replace("{options}", options.replace("{", "{{").replace("}", "}}"))
    with (
        nothing_of_the_streams_changes(kafka),
        drill_project(root, inputs=root, fault=kind, batches=8, min_records=5_000, source=source) as workspace,
    ):
        run = run_drill(workspace)
        assert run.facts["healing"]["clean"], run.facts["healing"]
        copied = run.facts["fork"]["copied"]
        assert f"the topic {copied['topic']}" in run.facts["healing"]["removed"]
        assert sum(each["records"] + each["held"] for each in copied["partitions"]) == RECORDS
        assert [each["start"] for each in copied["partitions"]] == [GONE] * 4
        return run


def exits(run: DrillRun) -> list[str]:
    """How each of the fork's drivers ended."""
    entries = [entry for entry in _journal(run)["entries"] if entry["kind"] == "driver_ended"]
    return [entry["data"]["exit"] for entry in entries]


def _journal(run: DrillRun) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(Path(run.facts["journal"]).read_text())
    return found


def test_a_running_driver_reads_the_partitions_that_its_topic_gets(kafka: Broker, tmp_path: Path) -> None:
    run = drilled(kafka, tmp_path, "partitions_added")
    assert run.passed, run.reason
    proof, recovery, counts = (run.facts[name] for name in ("fault", "recovery", "reconciliation"))
    assert (proof["evidence"]["partitions_before"], proof["evidence"]["partitions_after"]) == (4, 8)
    new = {name: each for name, each in proof["evidence"]["partitions"].items() if name[-1] in "4567"}
    assert sum(each["last"] for each in new.values()) == sum(
        each["held"] for each in run.facts["fork"]["copied"]["partitions"]
    )
    assert recovery["first_new_batch"] == proof["evidence"]["first_batch"]
    assert not recovery["restarted"]
    assert counts["records"] == RECORDS
    assert counts["exactly_once"]
    assert exits(run) == ["stopped"]


def test_a_loss_is_reported_to_the_record_and_nothing_else_is_lost(kafka: Broker, tmp_path: Path) -> None:
    run = drilled(kafka, tmp_path, "retention_passed")
    assert run.passed, run.reason
    proof, refusal, counts = (run.facts[name] for name in ("fault", "refusal", "reconciliation"))
    lost = {f"{each['topic']}-{each['partition']}": each["end"] - each["start"] for each in proof["lost"]}
    assert len(lost) == 4
    assert refusal["check"]["evidence"]["lost_by_partition"] == lost
    assert "its retention passed" in refusal["next_step"]
    assert 'failOnDataLoss: "false"' in refusal["next_step"]
    assert counts["records"] == RECORDS - sum(lost.values())
    assert counts["exactly_once"]
    assert f"{sum(lost.values()):,} records deleted before any batch read them" in run.reason


def test_a_recreated_topic_is_reported_and_read_under_a_new_checkpoint(kafka: Broker, tmp_path: Path) -> None:
    run = drilled(kafka, tmp_path, "topic_recreated")
    assert run.passed, run.reason
    proof, refusal, counts = (run.facts[name] for name in ("fault", "refusal", "reconciliation"))
    assert "a new checkpoint path and a new output" in refusal["next_step"]
    assert len(refusal["check"]["evidence"]["made_anew"]) == 4
    assert counts["records"] == proof["records"] < RECORDS
    assert counts["exactly_once"]
    assert run.facts["recovery"]["first_new_batch"] == 0
    assert run.facts["remediation"]["fork"]["checkpoint"] != run.facts["fork"]["checkpoint"]


@pytest.mark.full  # what the engine makes of it is in unit/drills
@pytest.mark.parametrize("kind", ["retention_passed", "topic_recreated"])
def test_a_stream_that_loses_records_in_silence_fails_its_drill(kafka: Broker, tmp_path: Path, kind: str) -> None:
    run = drilled(kafka, tmp_path, kind, SILENT)
    assert run.facts["fault"]["landed"]
    assert verdict_word(run) == "DEVIATED"
    assert "the stream went on in silence: batch" in run.reason
    assert "reconciliation" not in run.facts


@pytest.mark.parametrize("feed", [Feed.COPY, Feed.GROWING])
def test_a_copy_is_equal_record_by_record(kafka: Broker, tmp_path: Path, feed: Feed) -> None:
    """Without values, with empty ones, with timestamps of years ago, and with a partition that is empty."""
    forks = DrillForks(DrillArchive(tmp_path), lambda _: MIXED)
    with nothing_of_the_streams_changes(kafka):
        made = forks.make("run", "mixed", ForkSpec(), feed)
        assert made.copied is not None
        source, topic = ForkSource(), made.copied.topic
        assert made.copied.records == made.unseen == 49
        assert topics(kafka)[topic] == 3
        if feed is Feed.GROWING:
            assert kafka.ends(topic, 3) == [21, 0, 4]
            source.grow(made)
            source.grow(made)  # as a step that was killed does
            assert kafka.ends(topic, 6) == [21, 0, 4, 21, 0, 3]
        else:
            assert kafka.ends(topic, 3) == [42, 0, 7]
        assert [lag.waiting for lag in source.lags(made)] == kafka.ends(topic, topics(kafka)[topic])
        assert (
            _records(topic, 0)[:3]
            == _records("mixed", 0)[:3]
            == [
                (None, 1_600_000_000_000),
                (b"", 1_600_000_000_000),
                (b"0", 1_600_000_000_000),
            ]
        )
        assert_evidence_is_the_same(made.copied, tmp_path, [21, 0, 4, 21, 0, 3] if feed is Feed.GROWING else [42, 0, 7])
        assert forks.clear("run", made) == [f"the topic {topic}"]
        assert forks.clear("run", made) == []


def assert_evidence_is_the_same(copied: CopiedTopic, root: Path, ends: list[int]) -> None:
    """What an oracle takes of the origin's topic is what the copy has at these places."""
    cuts = [(number, end // 3, end) for number, end in enumerate(ends)]
    ranges = {
        0: [TopicRange(copied.topic, number, 0, cut) for number, cut, _ in cuts if cut],
        2: [TopicRange(copied.topic, number, cut + 1, end) for number, cut, end in cuts if cut + 1 < end],
    }
    known = connection("events")
    there, taken = (
        {
            batch: [(path.name, path.read_text(), path.stat().st_mtime) for path in paths]
            for batch, paths in made.items()
        }
        for made in (
            export_topic(known, ranges, root / "copy"),
            export_copied(known, ranges, copied, root / "origin"),
        )
    )
    assert taken == there
    assert there[0]
    assert there[2]
    beyond = TopicRange(copied.topic, 2, 0, ends[2] + 1)
    with pytest.raises(VerificationError, match="mixed has no such record"):
        export_copied(known, {0: [beyond]}, copied, root / "beyond")


def _records(topic: str, partition: int) -> list[tuple[bytes | None, int]]:
    found = read_messages(connection("events"), TopicRange(topic, partition, 0, 5))
    return [(message.value(), message.timestamp()[1]) for message in found]


def test_a_copy_with_one_record_of_somebody_else_is_no_copy(
    kafka: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing is left of it."""
    create = scratch_topics.create

    def intrude(known: Any, name: str, partitions: int, **config: str) -> None:
        create(known, name, partitions, **config)
        kafka.produce(name, ["not of the stream"])

    monkeypatch.setattr(scratch_topics, "create", intrude)
    with nothing_of_the_streams_changes(kafka), pytest.raises(DrillAborted) as caught:
        DrillForks(DrillArchive(tmp_path), lambda _: MIXED).make("run", "mixed", ForkSpec(), Feed.COPY)
    assert "partition 0 of the copy is not what was copied: it has 43 records" in caught.value.observed


def test_a_copy_that_was_never_finished_is_deleted_at_the_healing(
    kafka: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forks = DrillForks(DrillArchive(tmp_path), lambda _: MIXED)
    with nothing_of_the_streams_changes(kafka):
        make_and_be_killed(forks, monkeypatch)
        (left,) = [name for name in topics(kafka) if name.startswith(SCHEMA)]
        assert f"the topic {left}" in forks.clear("run", None)
        make_and_be_killed(forks, monkeypatch)
        made = forks.make("run", "mixed", ForkSpec(), Feed.COPY)
        assert made.copied is not None
        assert kafka.ends(made.copied.topic, 3) == [42, 0, 7], "the next attempt begins with an empty one"
        forks.clear("run", made)


class Killed(BaseException):
    """The drill's process is killed here, which clears nothing."""


def make_and_be_killed(forks: DrillForks, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the first partition was copied."""

    def dies(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(copy, "_require_equal", dies)
        patch.setattr("streamwarden.services.forks.forks.clear", lambda *_: None)
        with pytest.raises(Killed):
            forks.make("run", "mixed", ForkSpec(), Feed.COPY)


def test_no_topic_but_a_forks_is_ever_changed(kafka: Broker, tmp_path: Path) -> None:
    forks = DrillForks(DrillArchive(tmp_path), lambda _: MIXED)
    with nothing_of_the_streams_changes(kafka):
        made = forks.make("run", "mixed", ForkSpec(), Feed.COPY)
        assert made.copied is not None
        theirs = replace(made, spec=replace(made.spec, source=replace(made.spec.source, topic="mixed")))
        source = ForkSource()
        for act in (
            lambda: source.grow(theirs),
            lambda: source.forget(theirs, {0: 5}),
            lambda: source.remake(theirs, {0: 1, 1: 0, 2: 1}),
        ):
            with pytest.raises(DrillError, match="mixed is not a topic of a fork"):
                act()
        with pytest.raises(CheckpointError, match="mixed is not a topic of a fork"):
            copy.drop(MIXED.source)
        with pytest.raises(DrillError, match="which no drill changes"):
            source.forget(replace(made, copied=None), {0: 5})
        forks.clear("run", made)


def test_a_topic_that_is_not_there_cannot_be_copied(kafka: Broker, tmp_path: Path) -> None:
    absent = replace(MIXED, source=replace(COPIED, topic="absent"))
    with pytest.raises(SourceError, match="Unknown topic"):
        copy.create(absent, replace(absent, source=replace(COPIED, topic=f"{SCHEMA}x_source")), Feed.COPY)
    with pytest.raises(DrillAborted, match="Unknown topic"):
        DrillForks(DrillArchive(tmp_path), lambda _: absent).make("run", "mixed", ForkSpec(), Feed.COPY)
