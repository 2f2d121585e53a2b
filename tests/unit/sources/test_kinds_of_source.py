"""Each kind of source declares everything about itself, and no other module names one."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any

import pytest

from streamwarden import sources
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.forks.places import Places
from streamwarden.lifecycle.forks.topic_copy import Feed
from streamwarden.services.forks.spec import forked_spec
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sources.base import CopyableSource, GeneratedSource, Source, StoredSource
from streamwarden.stream.spec import SourceSpec, StreamSpec
from support.imports import imports

SRC = Path(sources.__file__).parents[1]
DECLARED = [kind for kind in sources.KINDS.values() if issubclass(kind, Source)]
PLACES = Places.under("/fork")

NOT_A_KIND = {"audited", "base", "changed_input", "rows"}
"""Modules of `sources` that are shared by the kinds."""

ALLOWED = {
    "services/drilling/ports/inputs.py": "a drill breaks a fork's own input of files by renaming and copying them",
    "services/fleet/launching/class_archive.py": "the stream that trains the class archive fills its own folder",
}
"""Modules outside of `sources` that name a kind, and why."""


def example(kind: type[SourceSpec]) -> SourceSpec:
    """A source of the kind with its required keys only."""
    required = [each.name for each in fields(kind) if each.default is MISSING and each.default_factory is MISSING]
    given: dict[str, Any] = {name: f"/data/{name}" if name == "path" else name for name in required}
    return kind(**given)


def stream(kind: type[SourceSpec]) -> StreamSpec:
    return StreamSpec(
        name="s", job="/job.py", checkpoint="/data/c", source=example(kind), sink=ParquetSink(path="/data/out")
    )


def test_the_registry_names_each_kind_as_the_kind_names_itself() -> None:
    assert {name: example(kind).kind for name, kind in sources.KINDS.items()} == {name: name for name in sources.KINDS}
    assert set(sources.KINDS.values()) - set(DECLARED) == {SourceSpec}, "a script declares nothing"


@pytest.mark.parametrize("kind", DECLARED, ids=lambda kind: kind.kind)
def test_a_kind_answers_every_question_and_says_whether_its_input_is_stored(kind: type[Source]) -> None:
    assert not inspect.isabstract(kind)
    assert issubclass(kind, StoredSource) is not issubclass(kind, GeneratedSource)
    assert kind.DECLARED
    assert kind.OFFSETS is issubclass(kind, CopyableSource), "health checks of offsets apply to logs of records"
    assert bool(kind.SERVICE) is bool(example(kind).connection), "a service is reached through a connection"


def test_a_kind_without_an_answer_cannot_be_created() -> None:
    """Negative control: the base classes list what a kind must answer."""
    declared = {"read_back", "problems", "describe"}
    forks = {"forked", "batches", "take_input", "unplanned"}
    questions: dict[Any, set[str]] = {Source: declared | forks}
    questions[StoredSource] = questions[Source] | {"read", "waiting", "limited_to"}
    questions[GeneratedSource] = declared | {"generate"}
    for base, expected in questions.items():
        assert base.__abstractmethods__ == expected
        with pytest.raises(TypeError, match="abstract"):
            base()
    assert CopyableSource.__abstractmethods__ > questions[StoredSource]


@pytest.mark.parametrize("kind", DECLARED, ids=lambda kind: kind.kind)
def test_a_kind_describes_itself_for_the_catalogue(kind: type[Source]) -> None:
    source = example(kind)
    assert isinstance(source, Source)
    text = source.describe(lambda path: path.removeprefix("/data/"))
    assert "/data/" not in text
    named = [
        str(getattr(source, each.name)) for each in fields(kind) if each.default is MISSING and each.name != "options"
    ]
    assert all(value.removeprefix("/data/") in text for value in named)


@pytest.mark.parametrize("kind", DECLARED, ids=lambda kind: kind.kind)
def test_source_is_forked_and_stored_input_can_be_cut(kind: type[Source]) -> None:
    forked = forked_spec(stream(kind), PLACES)
    assert type(forked.source) is kind
    if isinstance(forked.source, StoredSource):
        assert forked.source.limited_to(7).limit == 7
        assert forked.source.limited_to(7).batches(15) == 3


def test_a_job_that_brings_its_own_source_cannot_be_forked(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("def build(spark, spec): ...\n")
    with pytest.raises(CheckpointError, match="the kind script, which a fork cannot redirect"):
        forked_spec(replace(stream(SourceSpec), job=str(tmp_path / "job.py")), PLACES)


@pytest.mark.parametrize("kind", DECLARED, ids=lambda kind: kind.kind)
def test_only_a_log_of_records_can_be_copied_for_a_fork(kind: type[Source]) -> None:
    if not issubclass(kind, CopyableSource):
        with pytest.raises(CheckpointError, match="not a topic that can be copied"):
            forked_spec(stream(kind), PLACES, Feed.COPY)
        return
    forked = forked_spec(stream(kind), PLACES, Feed.COPY).source
    assert forked != stream(kind).source, "the copy has another name than the original"


def test_the_kinds_are_imported_without_spark_and_clients() -> None:
    """The command line and the DAG files import every kind."""
    heavy = "pyspark", "confluent_kafka", "fsspec", "pandas"
    program = f"import sys, streamwarden.sources; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def named_kinds(file: Path) -> Iterator[str]:
    """The modules of kinds that the file imports, at its top or in a function."""
    for node in imports(file.read_text(encoding="utf-8"), of="sources"):
        modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module == "streamwarden.sources":
            modules = [f"streamwarden.sources.{alias.name}" for alias in node.names if alias.name != "KINDS"]
        for module in modules:
            parts = module.split(".")
            if parts[:2] == ["streamwarden", "sources"] and len(parts) > 2 and parts[2] not in NOT_A_KIND:
                yield module


def test_no_module_outside_the_sources_names_a_kind() -> None:
    """What varies by kind is asked of the source: an import of one kind is the beginning of an `if kind is …`."""
    files = {path.relative_to(SRC).as_posix(): path for path in SRC.rglob("*.py")}
    named = {name for name, path in files.items() if not name.startswith("sources/") and list(named_kinds(path))}
    assert named == set(ALLOWED)
    assert list(named_kinds(files["sources/__init__.py"])), "negative control: the registry names the kinds"
