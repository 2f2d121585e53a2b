"""A kind of sink is one module: it declares everything, and no other module knows which kinds there are."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import streamwarden
from streamwarden import sinks
from streamwarden.sinks.base import Sink
from streamwarden.sinks.files.sink import FileSink
from streamwarden.stream.spec import SinkSpec
from support.imports import imports

SOURCE = Path(streamwarden.__file__).parent
NEUTRAL = ("base", "columns", "fork_output", "output", "own_writes")
"""What another module may import of `streamwarden.sinks`, besides the registry."""

ALLOWED = {
    "services/fleet/launching/class_archive.py": "the run that fills the class archive writes into a parquet sink",
}
DECLARED = {name: kind for name, kind in sinks.KINDS.items() if kind is not SinkSpec}


def _imports(file: Path) -> Iterator[str]:
    for node in imports(file.read_text(encoding="utf-8"), of="sinks"):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif node.module is not None:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _inside(file: Path) -> list[str]:
    """The parts of `streamwarden.sinks` that the file imports and that belong to a kind."""
    found = (name.split(".")[2:3] for name in _imports(file) if name.startswith("streamwarden.sinks."))
    return sorted({part for (part,) in found if part not in (*NEUTRAL, "KINDS", "WRITERS")})


def test_no_module_outside_imports_a_kind_of_sink() -> None:
    found = {
        str(file.relative_to(SOURCE)): parts
        for file in sorted(SOURCE.rglob("*.py"))
        if not file.is_relative_to(SOURCE / "sinks") and (parts := _inside(file))
    }
    assert set(found) == set(ALLOWED), found


def overrides(kind: type, method: str) -> bool:
    return getattr(kind, method) is not getattr(Sink, method)


@pytest.mark.parametrize("name", DECLARED)
def test_each_kind_declares_everything(name: str) -> None:
    kind = DECLARED[name]
    assert issubclass(kind, Sink)
    assert not kind.__abstractmethods__
    assert kind.__dataclass_fields__["kind"].default == name
    assert kind.PLACE in kind.__dataclass_fields__, "the key that names where it writes is one of its keys"
    assert kind.__doc__, "the reference shows it"


@pytest.mark.parametrize("name", DECLARED)
def test_a_kind_on_a_service_says_how_the_service_is_used_and_any_other_needs_none(name: str) -> None:
    kind = DECLARED[name]
    for method in ("drop", "listen", "newest"):
        assert overrides(kind, method) is (kind.SERVICE is not None), method
    if kind.SERVICE is not None:  # a table of files may need an empty one for its fork, or a writer of its batches, too
        assert all(overrides(kind, method) for method in ("make_empty", "batch_writer"))
    assert ("connection" in kind.__dataclass_fields__) is (kind.SERVICE is not None)


@pytest.mark.parametrize("name", DECLARED)
def test_a_kind_of_files_gives_a_fork_its_history_and_another_kind_has_no_files(name: str) -> None:
    kind = DECLARED[name]
    assert kind.MANIFEST is issubclass(kind, FileSink) is overrides(kind, "history")
    assert kind.PLACE == "path" or not kind.MANIFEST


@pytest.mark.parametrize("name", DECLARED)
def test_a_kind_that_a_fork_inherits_nothing_of_repeats_batches(name: str) -> None:
    """What a fork begins without is judged from its own first batch, and rows that come twice need an id."""
    kind = DECLARED[name]
    assert kind.INHERITED is (kind.REPEATS is None)
    assert kind.QUERY_IN_ROWS is not kind.INHERITED
