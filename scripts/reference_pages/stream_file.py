"""The reference of a stream's YAML file, from the types that validate it."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import Final

from reference_pages.fields import Key, keys, table
from streamwarden.config.kinds import SIDES
from streamwarden.stream.spec import SinkSpec, SourceSpec, StreamSpec

_SET_BY_THE_LOADER: Final = ("project", "data", "data_url", "file", "fork", "last_batch")

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

- **YAML** follows the core schema of 1.2: only `true` and `false` are booleans (`no` and `on` are text), and a leading
  zero means nothing. Keys that occur twice, tabs, tags, several documents, anchors, aliases and files above 64 KiB are
  refused.
- **Types** are strict: a number is not accepted as text, nor text as a number. Spark's `conf` and `options` hold text:
  write `"200"`, `"true"`.
- **Durations** are numbers of seconds, or `250 ms`, `30s`, `2 seconds`, `10m`, `1h`, `7 days`.
- **Sizes** are numbers of bytes, or `512 MB`, `5 GB` (decimal: 10^9 bytes), `5 GiB` (2^30 bytes).
- **Budgets** are `COUNT per SPAN`: `5 per hour`, `3 per 30m`.
- **Paths**: `job`, `spark.keytab`, `spark.py_files`, `spark.archives` and the files that `spark.conf` ships
  (`spark.jars`, `spark.files`, …) are relative to the project folder, all others to the data folder, or to its URL
  (`STREAMWARDEN_DATA`, see [command line](cli.md#workspace)). The data folder is also the working directory of a
  driver, so relative paths in a job mean the same places, unless there is a URL. Absolute paths and URLs stay as they
  are; `~` is not expanded. A path without a scheme, and `file:`, is on the host's disk, also where Hadoop's
  default file system is HDFS: there Spark, and a job in its `spec`, gets every folder as a URI (`file:/…`, `hdfs://…`,
  `s3a://…`). See [what a path means](../how-to/hdfs.md#what-a-path-means).

## Scripts with several queries

A script may start any number of queries. One driver runs them; each has a lease on its own checkpoint, and is measured,
checked, listed and stopped at its own batch boundary under the name `STREAM/QUERY`. QUERY is the name that `queries`
gives it, else the query's own (`queryName`), else the last folder of its checkpoint with a meaningful name. Its
trigger is the one that the script sets, else the declared one.
[Jobs and scripts](../how-to/jobs-and-scripts.md#scripts) has the rules that hold for every script.

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
  null is recognised by its `queryName`, or by the last folder of its checkpoint. A query that names no checkpoint needs
  a `queryName`; its checkpoint is the declared one, else a folder of that name in `checkpoint`.
- Without `queries`, each query is found, and its checkpoint claimed, when it starts. A script whose text starts a
  single query has to use the declared `checkpoint`, unless the script hands its session, a frame or a function that
  starts a query to code outside its own files: the number of its queries is then known only when it runs. Each of
  several queries that name no checkpoint has a folder in `checkpoint`, by its `queryName`, else by its output.
- `checkpoint` is that of one of the queries, or the folder that holds theirs.
- `streamwarden start` waits until every query runs: those of `queries`, or as many as the script's text starts.
- A query that ends while others go on does not end the driver; the check `query_ended` opens an incident.
- A driver whose last query failed ends with that error. If the script continues, it has two minutes to end.
- The query of a stream with one query has the stream's name.

## Rules beyond the types

- `name` is the file's own name: lower case, digits and `_`, at most 63 characters, no `__`.
- The job's file exists inside the project's folder, also after symbolic links are followed. A file without a top-level
  `build(spark, spec)` runs as a PySpark script.
- The YAML file is not a symbolic link to a file outside its folder. It has at most 64 KiB and 12 levels, no anchors and
  no aliases, and no whole number beyond 64 bits.
- A tag has at most 100 characters and `owner` at most 500, as Airflow allows.
- Checkpoint, output, input and quarantine of a stream are separate folders: none is, contains or is inside another.
- Between streams, a checkpoint does not overlap any location of another stream, and an output does not overlap another
  output or quarantine. An input may be another stream's output. If two streams clash, one of them owns the
  place: the stream that runs there, or else the one that has run there. Of several, the one whose first driver was
  launched first owns it. The owner is not affected, and the other stream is broken. If neither has run there, both are
  broken.
- Keys of one kind of cluster (`queue`, `image`, …) are refused on every other. Kubernetes needs an `image`, and a
  `principal` needs a `keytab`. Spark runs Python in cluster mode only on YARN and Kubernetes.
- A path in an object store is written `s3a://bucket/path`. Only then may the file name a `storage.connection`.
- `validate` refuses a folder in HDFS, or in another storage beside `s3a://`, that its host cannot read.
- No location is in `audits`, `drivers`, `drills`, `groups`, `savepoints` or `upgrades` of the data folder, or in
  `savepoints` below its URL: Streamwarden itself writes there.
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
        return (
            f"The job is a whole PySpark script that brings its own {side}. This is also the kind if the file of a "
            f"script has no `{side}` at all."
        )
    return inspect.cleandoc(kind.__doc__ or "")
