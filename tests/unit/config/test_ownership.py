"""Two files name one place: the stream that runs there, or has run there, keeps it; the newcomer is broken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from streamwarden.config.loading import Catalog, load_catalog
from streamwarden.config.ownership import Claimant, Tenure, owner
from streamwarden.errors import StoreError
from streamwarden.stream.spec import StreamSpec
from support.streams.projects import Project

MORNING, NOON = 1_790_000_000.0, 1_790_010_000.0


def tenure(since: float = MORNING, *, runs: bool = False, last: StreamSpec | None = None) -> Tenure:
    return Tenure(since=since, runs=runs, last=last)


def catalog(project: Project, known: Mapping[str, Tenure]) -> Catalog:
    return load_catalog(project.root, project.data, known.get)


def copied(project: Project, name: str = "flights", copy: str = "a_copy") -> StreamSpec:
    """A stream, and a copy of its file in which only the name was changed."""
    path = project.stream(name)
    text = path.read_text().replace(f"name: {name}", f"name: {copy}")
    project.write(f"config/streams/{copy}.yaml", text)
    return project.load(path)


@pytest.mark.parametrize("runs", [True, False], ids=["running", "stopped"])
def test_a_copy_of_a_file_breaks_the_copy_and_not_the_original(project: Project, runs: bool) -> None:
    original = copied(project)
    found = catalog(project, {"flights": tenure(runs=runs, last=original)})
    assert (list(found.streams), list(found.broken)) == (["flights"], ["a_copy"])
    message = str(found.broken["a_copy"])
    assert "checkpoint of the stream flights (flights.yaml), which owns it" in message
    assert "its first driver was launched at 2026-09-21 14:13 UTC" in message
    assert "change `checkpoint` in a_copy.yaml, or delete a_copy.yaml; flights is not affected" in message
    assert "change `sink.path` in a_copy.yaml" in message


def test_without_history_both_are_broken_because_none_is_known_to_be_the_original(project: Project) -> None:
    copied(project)
    found = catalog(project, {})
    assert sorted(found.broken) == ["a_copy", "flights"]
    assert "change one of the two files" in str(found.broken["flights"])


def test_a_stream_with_history_elsewhere_is_a_newcomer_at_a_place_that_its_file_did_not_name_before(
    project: Project,
) -> None:
    """An older, running stream whose output was changed to that of another one."""
    flights = project.load(project.stream("flights"))
    path = project.stream("older")
    before = project.load(path)
    path.write_text(path.read_text().replace("output/older", "output/flights"))
    known = {"flights": tenure(NOON, last=flights), "older": tenure(MORNING, runs=True, last=before)}
    assert list(catalog(project, known).broken) == ["older"]


def test_a_folder_inside_the_place_of_a_running_stream_is_refused_and_the_running_stream_is_not(
    project: Project,
) -> None:
    flights = project.load(project.stream("flights"))
    path = project.stream("inner")
    path.write_text(path.read_text().replace("checkpoints/inner", "output/flights/checkpoint"))
    found = catalog(project, {"flights": tenure(runs=True, last=flights)})
    assert list(found.broken) == ["inner"]
    assert "is inside sink.path of the stream flights" in str(found.broken["inner"])


def test_a_running_stream_keeps_its_place_when_another_declares_the_folder_around_it(project: Project) -> None:
    flights = project.load(project.stream("flights"))
    path = project.stream("outer")
    path.write_text(path.read_text().replace("output/outer", "checkpoints"))
    found = catalog(project, {"flights": tenure(runs=True, last=flights)})
    assert list(found.broken) == ["outer"]


@pytest.mark.parametrize(
    "sink",
    [
        "{kind: postgresql, connection: c, table: counts}",
        "{kind: kafka, connection: c, topic: counts, key: [id], mode: update}",
    ],
)
def test_the_owner_of_a_table_or_topic_keeps_it(project: Project, sink: str) -> None:
    """Of a topic that real-time mode writes, only one stream may be the writer."""
    kafka = "kafka" in sink
    for name in ("counts", "a_copy"):
        project.write(
            f"config/streams/{name}.yaml",
            f"""
            name: {name}
            job: spark_jobs/job.py
            source: {{kind: kafka, connection: c, topic: t}}
            sink: {sink}
            checkpoint: checkpoints/{name}
            {"trigger: {real_time: 10 s}" if kafka else ""}
            spark: {{master: "local[*]"}}
            """,
        )
    known = {"counts": tenure(last=project.load(project.root / "config/streams/counts.yaml"))}
    found = catalog(project, known)
    assert list(found.broken) == ["a_copy"]
    assert f"is also the {'topic' if kafka else 'table'} of the stream counts" in str(found.broken["a_copy"])


def test_stream_with_unknown_last_settings_counts_as_using_those_of_its_file(project: Project) -> None:
    copied(project)
    assert list(catalog(project, {"flights": tenure(last=None)}).broken) == ["a_copy"]


def test_if_the_store_cannot_answer_both_are_broken_and_the_message_says_why(project: Project) -> None:
    copied(project)

    def down(stream: str) -> Tenure | None:
        raise StoreError("the database does not answer")

    found = load_catalog(project.root, project.data, down)
    assert sorted(found.broken) == ["a_copy", "flights"]
    assert "which of the two has run there is not known (the database does not answer)" in str(found.broken["flights"])


def test_the_store_is_not_asked_about_streams_that_do_not_clash(project: Project) -> None:
    for name in ("a", "b"):
        project.stream(name)

    def refuse(stream: str) -> Tenure | None:
        raise AssertionError(stream)

    assert sorted(load_catalog(project.root, project.data, refuse).streams) == ["a", "b"]


def test_a_stream_that_runs_precedes_one_that_ran_and_then_the_first_launch_decides() -> None:
    newcomer = Claimant(stream="newcomer", tenure=None)
    stopped = Claimant(stream="stopped", tenure=tenure(MORNING))
    running = Claimant(stream="running", tenure=tenure(NOON, runs=True))
    earlier = replace(running, stream="z", tenure=tenure(MORNING, runs=True))
    assert owner([newcomer]) is None
    assert owner([newcomer, stopped]) == stopped
    assert owner([newcomer, stopped, running]) == running
    assert owner([running, stopped, earlier]) == earlier
    assert owner([earlier, replace(earlier, stream="a")]) == replace(earlier, stream="a")
