"""Copies of a stream's run whose output a test may forge, as a broken sink would have written it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from streamwarden.checkpoint.formats.layout import SINK_LOG
from streamwarden.checkpoint.formats.uris import to_path
from streamwarden.stream.spec import StreamSpec

Rows = list[dict[str, Any]]


def copied(spec: StreamSpec, folder: Path) -> StreamSpec:
    """The run, with copies of its manifest, checkpoint and input (of the rate source there is none) below `folder`; the
    data files are the real ones."""
    shutil.copytree(Path(str(spec.sink.path)) / SINK_LOG, folder / "output" / SINK_LOG)
    # Spark's maintenance may still upload a snapshot: its temporary files come and go.
    shutil.copytree(spec.checkpoint, folder / "checkpoint", ignore=shutil.ignore_patterns(".*.tmp", ".*.tmp.crc"))
    source = spec.source
    if source.path is not None:
        shutil.copytree(source.path, folder / "input")
        source = replace(source, path=str(folder / "input"))
    return replace(
        spec,
        source=source,
        sink=replace(spec.sink, path=str(folder / "output")),
        checkpoint=str(folder / "checkpoint"),
    )


def rewrite(spec: StreamSpec, change: Callable[[Rows], Rows]) -> None:
    """Replace the data file with the most rows by a changed copy."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    found = []
    for entry in (Path(str(spec.sink.path)) / SINK_LOG).iterdir():
        lines = entry.read_text().splitlines() if not entry.name.startswith(".") else []
        for number, line in enumerate(lines[1:], start=1):
            table = pq.ParquetFile(Path(to_path(json.loads(line)["path"]))).read()
            found.append((table.num_rows, entry, number, table))
    most = max(found, key=lambda each: each[0])
    assert most[0], "there are no rows to change"
    _, chosen, at, table = most
    copy = Path(str(spec.sink.path)) / "rewritten.parquet"
    changed = pa.Table.from_pylist(change(table.to_pylist()), schema=table.schema)
    pq.write_table(changed, copy, use_deprecated_int96_timestamps=True)  # as Spark writes them
    original = chosen.read_text().splitlines()[at]
    line = json.dumps({**json.loads(original), "path": copy.as_uri(), "size": copy.stat().st_size})
    for entry in (Path(str(spec.sink.path)) / SINK_LOG).iterdir():  # an entry, and the compact one that repeats it
        if not entry.name.startswith("."):
            entry.write_text(entry.read_text().replace(original, line))
