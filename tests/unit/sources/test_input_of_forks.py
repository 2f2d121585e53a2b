"""Which files of a folder are the input of a fork: those that Spark reads, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamwarden.lifecycle.forks.places import Places
from streamwarden.lifecycle.forks.topic_copy import Feed
from streamwarden.sources.files import FilesSource
from streamwarden.sources.files.forking import link_input
from streamwarden.sources.files.waiting import unplanned_files
from streamwarden.stream.spec import StreamSpec

FILES = ("1.json", "archive/old.json", "day=2/2.json", "_temporary/3.json", ".4.json", "5.json._COPYING_")


@pytest.mark.parametrize(
    ("options", "read"),
    [
        ({}, ["1.json", "day=2/2.json"]),
        ({"recursiveFileLookup": "true"}, ["1.json", "archive/old.json", "day=2/2.json"]),
    ],
)
def test_a_subfolder_that_spark_does_not_read_is_no_input(
    tmp_path: Path, options: dict[str, str], read: list[str]
) -> None:
    for name in FILES:
        file = tmp_path / "in" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    source = FilesSource(path=str(tmp_path / "in"), options=options)
    spec = StreamSpec(name="s", job="s.py", checkpoint=str(tmp_path / "cp"), source=source)
    places = Places.under(str(tmp_path / "fork"))
    forked = StreamSpec(
        name="s__fork", job="s.py", checkpoint=places.checkpoint, source=source.forked(places, Feed.ORIGIN)
    )
    taken = link_input(spec, forked, None)
    linked = [str(path.relative_to(places.input)) for path in Path(places.input).rglob("*") if path.is_file()]
    assert sorted(linked) == read
    assert (taken.total, unplanned_files(forked)) == (len(read), len(read))
