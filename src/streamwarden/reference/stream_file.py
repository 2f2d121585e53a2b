"""The reference of a stream's YAML file, from the types that validate it."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import Final

from streamwarden.config.kinds import SIDES
from streamwarden.reference.fields import Key, keys, table
from streamwarden.stream import SinkSpec, SourceSpec, StreamSpec

_SET_BY_THE_LOADER: Final = ("project", "file")

_HEAD: Final = """\
# A stream's file

One file `config/streams/NAME.yaml` is one stream. `streamwarden validate` checks all of them and names file, line, key,
value and what is allowed; a broken file breaks its own stream only.

    name: flight_departures
    job: spark_jobs/flight_departures.py
    source: {path: input/flights}
    sink: {path: output/flight_departures}
    checkpoint: checkpoints/flight_departures

## Keys

"""

_TAIL: Final = """
## How values are read

- **YAML** follows the core schema of 1.2: only `true` and `false` are booleans (`no` and `on` are text), a leading zero
  means nothing. Keys given twice, tabs, tags, several documents, anchors and aliases are refused, as is a file above
  64 KiB.
- **Types** are strict: a number is not taken for text nor text for a number. Spark's `conf` and `options` hold text:
  write `"200"`, `"true"`.
- **Durations** are numbers of seconds, or `250 ms`, `30s`, `2 seconds`, `10m`, `1h`, `7 days`.
- **Sizes** are numbers of bytes, or `512 MB`, `5 GB` (decimal: 10^9 bytes), `5 GiB` (2^30 bytes).
- **Budgets** are `COUNT per SPAN`: `5 per hour`, `3 per 30m`.
- **Paths**: `job`, `spark.keytab`, `spark.py_files` and `spark.archives` are found below the project folder, everything
  else below the data folder. Absolute paths and URLs stay as they are; `~` is not expanded.

## Scripts with several queries

A script may start any number of queries. One driver runs them; each has a lease on its own checkpoint, and is measured,
checked, listed and stopped at its own batch boundary under the name `STREAM/QUERY`. QUERY is the name that `queries`
gives it, else the query's own (`queryName`), else the last folder of its checkpoint that says something. Its trigger is
the one that the script gave it.

    name: clicks
    job: spark_jobs/clicks.py
    source: {kind: script}
    sink: {kind: script}
    checkpoint: checkpoints/clicks
    queries:
      by_page: checkpoints/clicks/by_page
      by_user: checkpoints/clicks/by_user

- With `queries`, the script starts these queries and no others: another one is refused before its first batch, and the
  driver ends with an error. Their checkpoints are claimed before the driver is launched. A query whose checkpoint is
  null is recognised by its `queryName`, or by the last folder of its checkpoint.
- Without `queries`, each query is found, and its checkpoint claimed, when it starts. A script whose text starts a
  single query has to use the declared `checkpoint`, unless the script hands its session, a frame or a function that
  starts a query to code outside its own files: how many queries it starts is then known only when it runs.
- `checkpoint` is that of one of the queries, or the folder in which theirs lie.
- `streamwarden start` waits until every query runs: those of `queries`, or as many as the script's text starts.
- A query that ends while others go on does not end the driver; the check `query_ended` opens an incident.
- A driver whose last query failed ends with that error. A script that goes on without it is given two minutes.
- A stream with one query bears the stream's name alone.

## Rules beyond the types

- `name` is the file's own name: lower case, digits and `_`, at most 63 characters, no `__`.
- The job's file exists. Without a top-level `build(spark, spec)` it is run as the PySpark script that it is.
- Checkpoint, output, input and quarantine of a stream lie apart: none is, contains or lies inside another.
- Across streams: a checkpoint meets no location of another stream, an output no other output or quarantine. An input
  may be another stream's output. Of two streams that clash both are broken: neither is known to be the right one.
- What only one kind of cluster knows (`queue`, `image`, …) is refused on every other. Kubernetes needs an `image`, a
  `principal` its `keytab`. Spark runs Python in cluster mode on YARN and Kubernetes alone.
- What lies in an object store is written `s3a://bucket/path`, and then `storage.connection` may be named.
- No location lies in `drivers` or `drills` of the data folder: Streamwarden fills those itself.
"""


def page() -> str:
    """The whole page, in Markdown."""
    rows = [
        key
        for each in fields(StreamSpec)
        if each.name not in _SET_BY_THE_LOADER
        for key in ([_kind(each.name)] if each.name in SIDES else keys(StreamSpec, only=each.name))
    ]
    kinds = (_section(side, name) for side, named in SIDES.items() for name in named)
    return _HEAD + table(rows) + "\n" + "\n".join(kinds) + _TAIL


def _kind(side: str) -> Key:
    names = list(SIDES[side])
    meaning = f"the kind of {side}; each kind has its own keys, see below"
    return Key(f"{side}.kind", ", ".join(f"`{name}`" for name in names), f"`{names[0]}`", meaning)


def _section(side: str, name: str) -> str:
    kind = SIDES[side][name]
    shared = {f"{side}.{each.name}" for each in fields({"source": SourceSpec, "sink": SinkSpec}[side])}
    rows = sorted(keys(kind, leave_out=("kind",), prefix=f"{side}."), key=lambda key: key.name in shared)
    return f"### `{side}: {{kind: {name}}}`\n\n{_introduction(side, kind)}\n\n{table(rows)}"


def _introduction(side: str, kind: type) -> str:
    if kind in (SourceSpec, SinkSpec):
        return f"The job is a whole PySpark script that brings its own {side}."
    return inspect.cleandoc(kind.__doc__ or "")
