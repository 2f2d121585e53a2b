"""Private parts of PySpark and py4j are used in `spark.internals` alone, and on the Spark that is installed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

import streamwarden
from streamwarden.checkpoint.spark_version import SPARK
from streamwarden.spark import internals

_SRC = Path(streamwarden.__file__).parent
_INTERNALS = Path(internals.__file__).parent

_OF_PYSPARK = frozenset(
    {"_jvm", "_jsc", "_jdf", "_jc", "_jsq", "_jsparkSession", "_jwrite", "_jreader", "_sc", "_gateway", "_df", "_spark"}
)
_OF_THE_JVM = frozenset({"sessionState", "queryExecution", "streamingQuery"})


def _violations(source: str) -> Iterator[str]:
    """Places of a module that belong in `spark.internals`. An attribute of `self` is the module's own."""
    if not any(name in source for name in (*_OF_PYSPARK, *_OF_THE_JVM, "py4j", "pyspark.sql.classic")):
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            if any(name.partition(".")[0] == "py4j" or name.startswith("pyspark.sql.classic") for name in names):
                yield f"line {node.lineno}: imports {', '.join(names)}"
        elif isinstance(node, ast.Attribute):
            own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if node.attr in _OF_THE_JVM or (node.attr in _OF_PYSPARK and not own):
                yield f"line {node.lineno}: {ast.unparse(node)}"
        elif isinstance(node, ast.Constant) and node.value in _OF_PYSPARK:
            yield f"line {node.lineno}: the name {node.value!r}"


def test_private_parts_of_spark_are_used_in_internals_alone() -> None:
    found = {
        str(file.relative_to(_SRC)): list(_violations(file.read_text(encoding="utf-8")))
        for file in _SRC.rglob("*.py")
        if _INTERNALS not in file.parents
    }
    assert {file: places for file, places in found.items() if places} == {}


@pytest.mark.parametrize(
    "source",
    [
        "from py4j.protocol import Py4JError",
        "import py4j.java_gateway",
        "from pyspark.sql.classic.column import Column",
        "session._jvm.org.apache",
        "spark.sparkContext._jsc.sc()",
        "getattr(writer, '_jwrite')",
        "session.sessionState()",
    ],
)
def test_the_scan_sees_a_private_call(source: str) -> None:
    assert list(_violations(source))


def test_internals_are_proven_on_the_installed_spark() -> None:
    assert version("pyspark") in internals.PROVEN_ON


def test_internals_are_proven_on_the_spark_whose_formats_are_known() -> None:
    assert all(proven.startswith(f"{SPARK}.") for proven in internals.PROVEN_ON)
