"""The reference page of the versions of Spark: what the matrix test saw on each, and what the older ones lack."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from streamwarden.checkpoint.spark_support import NEWEST, SUPPORTED, Feature, parsed, shown

SEEN: Final = "tests/data/spark_versions.json"

_HEAD: Final = """\
# Versions of Spark

A stream runs on the Spark of [the environment that it names](../how-to/spark-versions.md). On each version a stream
with a windowed aggregation (files, RocksDB, a parquet sink) was run; `make test-full` writes down what it saw:

"""

_LACKING: Final = """
## What an older version lacks

`streamwarden validate` refuses a stream that asks for it, and a command that needs it says so. It refuses a version
that is not in the first table, too: no stream was run on it yet. All other tests run on Spark 4.3, in Streamwarden's
own environment.

"""

_COLUMNS: Final[Mapping[str, str]] = {
    "spark": "Spark",
    "scala": "Scala",
    "python": "Python",
    "stop": "start, reports, stop",
    "kill_driver": "drill `kill_driver`, judged by its twin",
    "audit": "audit",
    "inspect": "`inspect`",
}


def page(project: Path) -> str:
    """The whole page, in Markdown."""
    seen = json.loads((project / SEEN).read_text(encoding="utf-8"))
    return _HEAD + "\n".join(_table(seen)) + "\n" + _LACKING + "\n".join(_lacking()) + "\n"


def _table(seen: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    yield f"| {' | '.join(_COLUMNS.values())} |"
    yield "|" + "---|" * len(_COLUMNS)
    supported = [version for version in sorted(seen, key=parsed) if parsed(version) in SUPPORTED]
    for version in supported:
        yield f"| {' | '.join(seen[version].get(key, 'not tried') for key in _COLUMNS)} |"
    assert {*SUPPORTED} <= {NEWEST, *map(parsed, supported)}, "a version is supported, and was not tried"


def _lacking() -> Iterator[str]:
    yield "| since Spark | feature | on an older version |"
    yield "|---|---|---|"
    for feature in Feature:
        since = feature.value
        yield f"| {shown(since.version)} | {since.title} | {since.instead} |"
