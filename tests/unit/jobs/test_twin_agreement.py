"""Each stream of the repository can be forked, and a test with real Spark shows that its twin and its job's own oracle
agree after a crash."""

from __future__ import annotations

import re
from pathlib import Path

from streamwarden.config.loading import load_stream
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.forks.places import Places
from streamwarden.services.forks.spec import forked_spec
from support.streams.catalogue import REPOSITORY

STREAMS = (*REPOSITORY.glob("config/streams/*.yaml"), *REPOSITORY.glob("packaging/compose/streams/*.yaml"))
PROOF = re.compile(r"assert_(?:the_twin_agrees|both_agree)\([^)]*of=\"(\w+)\"")
"""A call of one of the two functions of support/spark/twins.py, with the stream that it is for."""


def can_be_forked(file: Path, data: Path) -> bool:
    try:
        forked_spec(load_stream(file, project=REPOSITORY, data=data), Places.under(str(data / "fork")))
    except CheckpointError:
        return False
    return True


def test_for_each_stream_the_twin_is_shown_to_agree(tmp_path: Path) -> None:
    tests = (file for folder in ("spark", "drills") for file in (REPOSITORY / "tests" / folder).rglob("test_*.py"))
    shown = {name for file in tests for name in PROOF.findall(file.read_text())}
    forked = {file.stem for file in STREAMS if can_be_forked(file, tmp_path)}
    assert forked == {file.stem for file in STREAMS}, "each of them can be drilled"
    assert shown == forked
