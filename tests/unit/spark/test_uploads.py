"""When a driver uploads the snapshots of its state sooner. benchmarks/crash_loop shows what that is worth."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace

import pytest

from streamwarden.lifecycle.settings import MAINTENANCE
from streamwarden.lifecycle.submission import MIN_DELTAS_FOR_SNAPSHOT
from streamwarden.spark.state.uploads import AT_ONCE, hasten_uploads, owed_versions
from streamwarden.stream.spark import SparkSpec
from streamwarden.stream.spec import StreamSpec

DUE = MIN_DELTAS_FOR_SNAPSHOT - 1
"""Changelogs after which the next batch makes a snapshot."""


def stream(root: Path, partitions: Iterable[Iterable[str]], **conf: str) -> StreamSpec:
    """A stream whose partitions of state have these files."""
    for number, names in enumerate(partitions):
        folder = root / "state" / "0" / str(number)
        folder.mkdir(parents=True)
        for name in names:
            (folder / name).write_bytes(b"state")
    return StreamSpec(name="counts", job="job.py", checkpoint=str(root), spark=SparkSpec(conf=conf))


def changelogs(first: int, last: int) -> list[str]:
    return [f"{version}.changelog" for version in range(first, last + 1)]


def settings_of(spec: StreamSpec) -> dict[str, str]:
    settings: dict[str, str] = {}
    hasten_uploads(SimpleNamespace(conf=SimpleNamespace(set=settings.__setitem__)), spec)
    return settings


@pytest.mark.parametrize(
    ("partitions", "owed"),
    [
        ([changelogs(1, DUE)], DUE),
        ([changelogs(1, DUE - 1)], DUE - 1),
        ([[*changelogs(1, 9), "7.zip"]], 2),
        ([[*changelogs(1, 9), "7.zip"], [*changelogs(1, 9), "3.zip"]], 6),
        ([], 0),
    ],
    ids=["due", "not yet due", "since a snapshot", "the worst partition", "a new stream"],
)
def test_snapshots_are_uploaded_at_once_if_the_first_batch_makes_one(
    tmp_path: Path, partitions: list[list[str]], owed: int
) -> None:
    spec = stream(tmp_path, partitions)
    assert owed_versions(spec) == owed
    assert settings_of(spec) == ({MAINTENANCE: AT_ONCE} if owed >= DUE else {})


def test_an_interval_in_the_streams_file_stays(tmp_path: Path) -> None:
    assert settings_of(stream(tmp_path, [changelogs(1, 9)], **{MAINTENANCE: "1s"})) == {}


def test_the_stores_of_an_object_store_are_not_listed() -> None:
    spec = StreamSpec(name="counts", job="job.py", checkpoint="s3a://lake/checkpoint")
    assert owed_versions(spec) == 0
