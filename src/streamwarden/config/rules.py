"""The rules of a well-typed stream, alone and together with the others. Pure except that it checks files on disk."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Final

from streamwarden.config.cluster import LEAST_MEMORY, cluster_problems, shipped
from streamwarden.config.paths import URL, resolve
from streamwarden.config.real_time import real_time_problems
from streamwarden.lifecycle.heartbeat import SHORTEST_BOUND
from streamwarden.problems import KeyPath, Problem, show
from streamwarden.sinks.base import Sink
from streamwarden.sources.base import Source
from streamwarden.stream import CONNECTION_PATTERN, NAME_PATTERN, SinkSpec, SourceSpec, StreamSpec

_BUCKET: Final = re.compile(r"s3a://+[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/+[^/\s]", re.IGNORECASE)
_GLOB: Final = re.compile(r"[*?\[\]{}]")

RESERVED_FOLDERS: Final = ("drivers", "drills")
"""Folders of the data folder that Streamwarden itself writes to."""


def resolved(spec: StreamSpec, *, project: Path, data: Path, file: Path) -> StreamSpec:
    """The stream with every path absolute: `job` below the project, all others below the data folder."""
    source, sink = spec.source, spec.sink
    locate = partial(resolve, root=data)
    return replace(
        spec,
        job=resolve(spec.job, project),
        checkpoint=resolve(spec.checkpoint, data),
        queries={name: resolve(path, data) if path else path for name, path in spec.queries.items()},
        source=source.located(locate) if isinstance(source, Source) else source,
        sink=sink.located(locate) if isinstance(sink, Sink) else sink,
        quarantine=resolve(spec.quarantine, data) if spec.quarantine else spec.quarantine,
        spark=shipped(spec.spark, project),
        project=str(project),
        data=str(data),
        file=str(file),
    )


def rules_of_one(spec: StreamSpec, raw: StreamSpec, *, stem: str, data: Path) -> list[Problem]:
    """Problems of one stream. `spec` has resolved paths, `raw` the paths as they were written."""
    return [
        *_name(raw.name, stem),
        *_job(raw.job, spec.job),
        *_spelling(raw),
        *_numbers(spec),
        *_queries(spec),
        *_kinds(spec),
        *real_time_problems(spec),
        *cluster_problems(spec.spark),
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


def _job(written: str, job: str) -> list[Problem]:
    path = Path(job)
    if path.suffix != ".py":
        return [Problem(key=("job",), observed=show(written), allowed="a Python file, such as spark_jobs/NAME.py")]
    if not path.is_file():
        return [
            Problem(
                key=("job",),
                observed=f"{show(written)}: there is no file {job}",
                allowed="a Python file below the project folder",
                next_step="create it or correct the path",
            )
        ]
    return []


def _locations(spec: StreamSpec) -> dict[KeyPath, str]:
    found: dict[KeyPath, str | None] = {
        ("checkpoint",): spec.checkpoint,
        ("sink", "path"): spec.sink.path,
        ("source", "path"): spec.source.path,
        ("quarantine",): spec.quarantine,
        **{("queries", name): path for name, path in spec.queries.items()},
    }
    return {key: path for key, path in found.items() if path is not None}


def _spelling(raw: StreamSpec) -> list[Problem]:
    problems = []
    for key, path in _locations(raw).items():
        if not path or path != path.strip() or any(ord(letter) < 32 for letter in path):
            allowed = "a path without surrounding blanks and without control characters"
            problems.append(Problem(key=key, observed=show(path), allowed=allowed))
        elif path.startswith("~"):
            observed, allowed = f"{show(path)}: ~ is not expanded", "an absolute path or one below the data folder"
            problems.append(Problem(key=key, observed=observed, allowed=allowed))
        elif key != ("source", "path") and _GLOB.search(path):
            problems.append(Problem(key=key, observed=show(path), allowed="one folder, without * ? [ ] { }"))
        elif URL.match(path) and ".." in PurePosixPath(path).parts:
            problems.append(Problem(key=key, observed=show(path), allowed="a URL without .."))
        elif path.lower().startswith("s3a:") and not _BUCKET.match(path):
            allowed = "s3a://BUCKET/FOLDER: a location is never a whole bucket"
            problems.append(Problem(key=key, observed=show(path), allowed=allowed))
    return problems


def _numbers(spec: StreamSpec) -> list[Problem]:
    restart, stop, state = spec.restart, spec.stop, spec.state
    wrong: list[tuple[KeyPath, object, bool, str]] = [
        (("state", "shuffle_partitions"), state.shuffle_partitions, state.shuffle_partitions >= 1, "at least 1"),
        (("state", "ttl"), state.ttl, state.ttl is None or state.ttl > 0, "a positive duration or null"),
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
    if spec.storage.connection is not None and not spec.in_object_store:
        observed, allowed = show(spec.storage.connection), "nothing: no path of this stream begins with s3a://"
        problems.append(Problem(key=("storage", "connection"), observed=observed, allowed=allowed))
    for name in spec.spark.conf:
        if not name.startswith("spark."):
            allowed = "a key that begins with spark.: spark-submit ignores every other"
            problems.append(Problem(key=("spark", "conf", name), observed=show(name), allowed=allowed))
    return problems


@dataclass(frozen=True, slots=True)
class _Place:
    """A folder in one spelling, so that two can be compared: symbolic links are resolved, no slash at the end."""

    scheme: str
    parts: tuple[str, ...]

    @classmethod
    def of(cls, path: str) -> _Place:
        if URL.match(path):
            scheme, _, rest = path.partition(":")
            scheme = {"s3a": "s3", "s3n": "s3", "abfss": "abfs"}.get(scheme, scheme)
            return cls(scheme, tuple(part for part in rest.split("/") if part))
        return cls("file", Path(os.path.realpath(path)).parts)

    def meets(self, other: _Place) -> bool:
        """Whether one is the other, or is inside it."""
        shared = min(len(self.parts), len(other.parts))
        return self.scheme == other.scheme and self.parts[:shared] == other.parts[:shared]


def _folder(path: str) -> str:
    """The fixed part of a path that may hold a glob."""
    head = _GLOB.split(path, maxsplit=1)[0]
    return path if head == path else head.rpartition("/")[0] or "/"


def _disjoint(spec: StreamSpec, data: Path) -> list[Problem]:
    """Checkpoint, output, input and quarantine of a stream are apart, and none is in a folder of Streamwarden."""
    problems = []
    places = [(key, path, _Place.of(_folder(path))) for key, path in _locations(spec).items()]
    own = [(name, _Place.of(str(data / name))) for name in RESERVED_FOLDERS]
    for index, (key, path, place) in enumerate(places):
        for other_key, other_path, other in places[:index]:
            if place.meets(other) and not _holds_queries(key, place, other_key, other):
                problems.append(
                    Problem(
                        key=key,
                        observed=f"{show(path)} {_relation(place, other)} {'.'.join(map(str, other_key))} "
                        f"{show(other_path)}",
                        allowed="separate folders: each of them is deleted, listed or copied alone",
                        next_step="give it a separate folder",
                    )
                )
        for name, other in own:
            if place.meets(other):
                observed = f"{show(path)} {_relation(place, other)} {data / name}, which Streamwarden itself writes to"
                problems.append(Problem(key=key, observed=observed, allowed="a folder outside it"))
    return problems


def _holds_queries(key: KeyPath, place: _Place, other_key: KeyPath, other: _Place) -> bool:
    """The stream's `checkpoint` may be that of one of its queries, or the folder that holds theirs."""
    pair = {key[0]: place, other_key[0]: other}
    return set(pair) == {"checkpoint", "queries"} and len(pair["queries"].parts) >= len(pair["checkpoint"].parts)


def _relation(place: _Place, other: _Place) -> str:
    if place.parts == other.parts:
        return "is also"
    return "is inside" if len(place.parts) > len(other.parts) else "contains"


_CLASHES: Final[Mapping[tuple[str, str], str]] = {
    ("checkpoint", "checkpoint"): "a separate checkpoint: two writers of one checkpoint destroy it",
    ("checkpoint", "sink"): "a checkpoint outside every output folder",
    ("checkpoint", "source"): "a checkpoint outside every input folder",
    ("checkpoint", "quarantine"): "a checkpoint outside every quarantine",
    ("sink", "sink"): "a separate output folder: two writers of one manifest lose rows",
    ("quarantine", "sink"): "a quarantine outside every output folder",
}
"""Locations of two streams that must be apart. An input inside an output is allowed: it is a chain of streams."""


def _role(key: KeyPath) -> str:
    """What the location at `key` is, as `_CLASHES` names it."""
    return "checkpoint" if key[0] == "queries" else str(key[0])


def _shared_sinks(specs: Iterable[StreamSpec]) -> dict[str, list[Problem]]:
    """Streams that share a table or a topic in which nothing says which stream wrote a row.

    A table records only the number of a batch, and every stream has a batch of that number. A record of a micro-batch
    names its query. A record of real-time mode does not, so its topic must not have another writer.
    """
    writers: dict[tuple[str, str], list[StreamSpec]] = {}
    for spec in specs:
        if spec.sink.connection is not None and spec.sink.address is not None:
            writers.setdefault((spec.sink.connection, spec.sink.address), []).append(spec)
    problems: dict[str, list[Problem]] = {}
    for those in (each for each in writers.values() if len(each) > 1):
        if all(spec.sink.QUERY_IN_ROWS and spec.trigger.real_time is None for spec in those):
            continue
        for spec in those:
            key = str(spec.sink.PLACE)
            others = ", ".join(f"{other.name} ({Path(other.file).name})" for other in those if other is not spec)
            problem = Problem(
                key=("sink", key),
                observed=f"{show(spec.sink.place)} is also the {key} of the stream {others}",
                allowed=f"a separate {key}: otherwise nothing says which stream wrote a row",
                next_step="change one of the files",
            )
            problems.setdefault(spec.name, []).append(problem)
    return problems


def rules_across(specs: Iterable[StreamSpec]) -> dict[str, list[Problem]]:
    """Problems between streams, by stream. All streams of a clash are broken: none is known to be the right one."""
    specs = tuple(specs)
    by_place: dict[tuple[str, tuple[str, ...]], list[tuple[StreamSpec, KeyPath, str]]] = {}
    placed = []
    for spec in specs:
        for key, path in _locations(spec).items():
            place = _Place.of(_folder(path))
            by_place.setdefault((place.scheme, place.parts), []).append((spec, key, path))
            placed.append((spec, key, path, place))
    problems = _shared_sinks(specs)

    def clash(spec: StreamSpec, key: KeyPath, path: str, relation: str, other: StreamSpec, okey: KeyPath) -> None:
        first, second = sorted((_role(key), _role(okey)))
        allowed = _CLASHES.get((first, second))
        if allowed is not None:
            problems.setdefault(spec.name, []).append(
                Problem(
                    key=key,
                    observed=f"{show(path)} {relation} {'.'.join(map(str, okey))} of the stream {other.name} "
                    f"({Path(other.file).name})",
                    allowed=allowed,
                    next_step="change one of the two files",
                )
            )

    for spec, key, path, place in placed:  # look up each folder above instead of comparing every pair
        for depth in range(len(place.parts) + 1):
            for other, okey, opath in by_place.get((place.scheme, place.parts[:depth]), ()):
                if other.name == spec.name:
                    continue
                inside = depth < len(place.parts)
                clash(spec, key, path, "is inside" if inside else "is also", other, okey)
                if inside:
                    clash(other, okey, opath, "contains", spec, key)
    return problems
