"""The rules of one well-typed stream. Pure except that it checks files on disk."""

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Final

from streamwarden.config.airflow_limits import label_problems, schedule_problems
from streamwarden.config.cluster import LEAST_MEMORY, cluster_problems, shipped
from streamwarden.config.places import GLOB, Place, is_file, located, locations, resolve
from streamwarden.config.real_time import real_time_problems
from streamwarden.config.spark_environment import environment_problems
from streamwarden.lifecycle.groups.group import FOLDER as GROUPS
from streamwarden.lifecycle.groups.rules import problems_of_one as group_problems
from streamwarden.lifecycle.job_files import remote_session
from streamwarden.lifecycle.location import URL, DataUrl
from streamwarden.lifecycle.savepoints.savepoint import FOLDER as SAVEPOINTS
from streamwarden.lifecycle.supervision.heartbeat import SHORTEST_BOUND
from streamwarden.lifecycle.supervision.standby import can_wait
from streamwarden.problems import KeyPath, Problem, show
from streamwarden.sinks.base import Sink
from streamwarden.sources.base import Source
from streamwarden.stream.spec import (
    CONNECTION_PATTERN,
    NAME_PATTERN,
    OBJECT_STORE,
    SinkSpec,
    SourceSpec,
    Standby,
    StreamSpec,
)

_BUCKET: Final = re.compile(r"s3a://+[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/+[^/\s]", re.IGNORECASE)

LONGEST_PATH: Final = 1024
"""Characters of a location: a key of an object store has 1024 bytes, a path on Linux 4096, and Spark appends to it."""

LONGEST_NAME: Final = 255
"""Bytes of the name of a folder on the usual file systems."""

RESERVED_FOLDERS: Final = ("audits", "drivers", "drills", GROUPS, SAVEPOINTS, "upgrades")
"""Folders of the data folder that Streamwarden itself writes to."""


def resolved(spec: StreamSpec, *, project: Path, data: Path, data_url: DataUrl | None, file: Path) -> StreamSpec:
    """The stream with every path absolute: `job` below the project, all others below the data folder or its URL."""
    return replace(
        located(spec, partial(resolve, root=data_url or data)),
        job=resolve(spec.job, project),
        spark=shipped(spec.spark, project),
        project=str(project),
        data=str(data),
        data_url=str(data_url or ""),
        file=str(file),
    )


def rules_of_one(spec: StreamSpec, raw: StreamSpec, *, stem: str, data: Path) -> list[Problem]:
    """Problems of one stream. `spec` has resolved paths, `raw` the paths as they were written."""
    return [
        *_name(raw.name, stem),
        *_job(raw.job, spec.job, spec.project),
        *label_problems(spec.owner, spec.tags),
        *schedule_problems(spec.audit.schedule, ("audit", "schedule")),
        *schedule_problems(spec.savepoints.schedule, ("savepoints", "schedule")),
        *_spelling(raw, spec),
        *_numbers(spec),
        *_queries(spec),
        *_kinds(spec),
        *_standby(spec),
        *group_problems(spec),
        *real_time_problems(spec),
        *cluster_problems(spec.spark),
        *environment_problems(spec),
        *_disjoint(spec, data),
    ]


def name_problems(name: str, stem: str, pattern: re.Pattern[str]) -> list[Problem]:
    """A name must be safe as DAG id, folder and key, and it must be the file's."""
    if not pattern.fullmatch(name):
        allowed = f"a name that matches {pattern.pattern}"
        return [Problem(key=("name",), observed=show(name), allowed=allowed, next_step="rename it and its file")]
    if name != stem:
        allowed = f"the file's own name, {show(stem)}"
        return [Problem(key=("name",), observed=show(name), allowed=allowed, next_step="rename the key or the file")]
    return []


def _name(name: str, stem: str) -> list[Problem]:
    problems = name_problems(name, stem, NAME_PATTERN)
    if not problems and "__" in name:
        allowed = "a name without `__`: names such as `x__fork` belong to the copies that drills make"
        return [Problem(key=("name",), observed=show(name), allowed=allowed, next_step="rename it and its file")]
    return problems


def _job(written: str, job: str, project: str) -> list[Problem]:
    """A job is executed with the rights of Airflow, so it has to be a file that the project's owners keep there."""
    path = Path(job)
    if path.suffix != ".py":
        return [Problem(key=("job",), observed=show(written), allowed="a Python file, such as spark_jobs/NAME.py")]
    if not is_file(job):
        return [
            Problem(
                key=("job",),
                observed=f"{show(written)}: there is no file {job}",
                allowed="a Python file below the project folder",
                next_step="create it or correct the path",
            )
        ]
    if not path.resolve().is_relative_to(Path(project).resolve()):
        return [
            Problem(
                key=("job",),
                observed=f"{show(written)} is the file {path.resolve()}, outside the project",
                allowed=f"a Python file below the project folder {project}, also after symbolic links are followed",
                next_step="copy the job and the modules that it imports into the project",
            )
        ]
    return _remote(path)


def _remote(job: Path) -> list[Problem]:
    """A driver is one process with its own Spark: see docs/explanation/decisions/pipelines-and-connect.md."""
    try:
        found = remote_session(job.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return []  # the driver fails with the same, and `validate` reports what is not Python
    if found is None:
        return []
    what, line = found
    return [
        Problem(
            key=("job",),
            observed=f"{what} in line {line} of {job.name}",
            allowed="a job for the driver's own Spark: `build(spark, spec)`, or a script that calls `getOrCreate()`",
            next_step="start the queries in a script without `remote`; run a pipeline with `spark-pipelines run`, by a "
            "schedule of Airflow: it ends when it has read its input",
        )
    ]


def _spelling(raw: StreamSpec, spec: StreamSpec) -> list[Problem]:
    problems, places = [], locations(spec)
    for key, path in locations(raw).items():
        place = places[key]
        if not path or path != path.strip() or any(ord(letter) < 32 for letter in path):
            allowed = "a path without surrounding blanks and without control characters"
            problems.append(Problem(key=key, observed=show(path), allowed=allowed))
        elif len(path) > LONGEST_PATH or any(len(part.encode()) > LONGEST_NAME for part in path.split("/")):
            allowed = f"at most {LONGEST_PATH} characters, and {LONGEST_NAME} bytes between two slashes"
            problems.append(Problem(key=key, observed=f"a path of {len(path)} characters", allowed=allowed))
        elif path.startswith("~"):
            observed, allowed = f"{show(path)}: ~ is not expanded", "an absolute path or one below the data folder"
            problems.append(Problem(key=key, observed=observed, allowed=allowed))
        elif key != ("source", "path") and GLOB.search(path):
            problems.append(Problem(key=key, observed=show(path), allowed="one folder, without * ? [ ] { }"))
        elif URL.match(place) and ".." in PurePosixPath(place).parts:
            problems.append(Problem(key=key, observed=show(place), allowed="a URL without .."))
        elif place.startswith("s3a:") and not _BUCKET.match(path if URL.match(path) else place):
            allowed = "s3a://BUCKET/FOLDER: a location is never a whole bucket"
            problems.append(Problem(key=key, observed=show(place), allowed=allowed))
    return problems


def _numbers(spec: StreamSpec) -> list[Problem]:
    restart, stop, state = spec.restart, spec.stop, spec.state
    wrong: list[tuple[KeyPath, object, bool, str]] = [
        (("state", "shuffle_partitions"), state.shuffle_partitions, state.shuffle_partitions >= 1, "at least 1"),
        (("state", "ttl"), state.ttl, state.ttl is None or state.ttl > 0, "a positive duration or null"),
        (("audit", "batches"), spec.audit.batches, (spec.audit.batches or 1) >= 1, "at least 1, or null"),
        (("savepoints", "keep"), spec.savepoints.keep, spec.savepoints.keep >= 1, "at least 1"),
        (("audit", "share"), spec.audit.share, 0 < spec.audit.share <= 1, "above 0 and at most 1"),
        (("restart", "factor"), restart.factor, restart.factor >= 1, "at least 1"),
        (("restart", "cap"), restart.cap, restart.cap >= restart.initial, f"at least `initial`, {restart.initial:g} s"),
        (("restart", "budget"), restart.budget.per, restart.budget.per > 0, "a positive span, such as 5 per hour"),
        (("restart", "healthy_after"), restart.healthy_after, restart.healthy_after > 0, "a positive duration"),
        (
            ("restart", "unresponsive_after"),
            restart.unresponsive_after,
            restart.unresponsive_after >= SHORTEST_BOUND,
            f"at least {SHORTEST_BOUND:.0f} s: a busy machine and a garbage collector pause for seconds",
        ),
        (("stop", "batch_deadline"), stop.batch_deadline, stop.batch_deadline > 0, "a positive duration"),
        (("stop", "term_deadline"), stop.term_deadline, stop.term_deadline > 0, "a positive duration"),
        (
            ("spark", "driver_memory"),
            spec.spark.driver_memory,
            spec.spark.driver_memory >= LEAST_MEMORY,
            f"at least {LEAST_MEMORY} bytes: Spark does not start with less",
        ),
    ]
    return [
        Problem(key=key, observed=show(value), allowed=allowed) for key, value, holds, allowed in wrong if not holds
    ]


def _standby(spec: StreamSpec) -> list[Problem]:
    """A standby waits on the driver's host, for a query without an end."""
    if spec.standby is Standby.NONE or can_wait(spec):
        return []
    allowed = f"{Standby.NONE}: only a stream with a local master that does not end by itself has a standby"
    return [Problem(key=("standby",), observed=show(str(spec.standby)), allowed=allowed)]


def _queries(spec: StreamSpec) -> list[Problem]:
    """A query's name becomes part of a key in the store, of a URL and of a path."""
    allowed = f"a query's name that matches {NAME_PATTERN.pattern}"
    return [
        Problem(key=("queries", name), observed=show(name), allowed=allowed)
        for name in spec.queries
        if not NAME_PATTERN.fullmatch(name)
    ]


def _circle(source: SourceSpec, sink: SinkSpec) -> list[Problem]:
    """A stream that reads its own output never ends."""
    if sink.SERVICE is None or sink.SERVICE != source.SERVICE:
        return []
    if (source.connection, source.topic) != (sink.connection, sink.place):
        return []
    allowed = f"a {sink.PLACE} other than source.topic: a stream that reads its own output never ends"
    step = f"name another {sink.PLACE}"
    return [Problem(key=("sink", str(sink.PLACE)), observed=show(sink.place), allowed=allowed, next_step=step)]


def _of_kind(side: SourceSpec | SinkSpec) -> Iterable[Problem]:
    return side.problems() if isinstance(side, Source | Sink) else ()


def _kinds(spec: StreamSpec) -> list[Problem]:
    problems = [*_of_kind(spec.source), *_of_kind(spec.sink), *_circle(spec.source, spec.sink)]
    sides = {"source": spec.source.connection, "sink": spec.sink.connection, "storage": spec.storage.connection}
    for side, name in sides.items():
        if name is not None and not CONNECTION_PATTERN.fullmatch(name):
            allowed = f"a connection's name that matches {CONNECTION_PATTERN.pattern}"
            problems.append(Problem(key=(side, "connection"), observed=show(name), allowed=allowed))
    stored = spec.in_object_store or OBJECT_STORE.match(spec.savepoints.folder or spec.data_url)
    if spec.storage.connection is not None and not stored:
        observed, allowed = show(spec.storage.connection), "nothing: no path of this stream begins with s3a://"
        problems.append(Problem(key=("storage", "connection"), observed=observed, allowed=allowed))
    if spec.source.TABLE and spec.quarantine is not None:
        allowed = "nothing: a table does not say which of its rows were read, so that none is kept aside"
        problems.append(Problem(key=("quarantine",), observed=show(spec.quarantine), allowed=allowed))
    for name in spec.spark.conf:
        if not name.startswith("spark."):
            allowed = "a key that begins with spark.: spark-submit ignores every other"
            problems.append(Problem(key=("spark", "conf", name), observed=show(name), allowed=allowed))
    return problems


def _disjoint(spec: StreamSpec, data: Path) -> list[Problem]:
    """Checkpoint, output, input and quarantine of a stream are apart, and none is in a folder of Streamwarden."""
    problems = []
    places = [(key, path, Place.of(path)) for key, path in locations(spec).items()]
    own = [(name, str(data / name)) for name in RESERVED_FOLDERS]
    if spec.data_url:
        own.append((SAVEPOINTS, DataUrl(spec.data_url).place(SAVEPOINTS)))
    for index, (key, path, place) in enumerate(places):
        for other_key, other_path, other in places[:index]:
            if place.meets(other) and not _holds_queries(key, place, other_key, other):
                problems.append(
                    Problem(
                        key=key,
                        observed=f"{show(path)} {place.relation(other)} {'.'.join(map(str, other_key))} "
                        f"{show(other_path)}",
                        allowed="separate folders: each of them is deleted, listed or copied alone",
                        next_step="give it a separate folder",
                    )
                )
        for name, reserved in own:
            other = Place.of(reserved)
            if place.meets(other) and key[0] != name:  # `savepoints.folder` may say what the default says
                observed = f"{show(path)} {place.relation(other)} {reserved}, which Streamwarden itself writes to"
                problems.append(Problem(key=key, observed=observed, allowed="a folder outside it"))
    return problems


def _holds_queries(key: KeyPath, place: Place, other_key: KeyPath, other: Place) -> bool:
    """The stream's `checkpoint` may be that of one of its queries, or the folder that holds theirs."""
    pair = {key[0]: place, other_key[0]: other}
    return set(pair) == {"checkpoint", "queries"} and len(pair["queries"].parts) >= len(pair["checkpoint"].parts)
