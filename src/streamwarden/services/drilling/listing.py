"""Lists the files around a drill before and after it, so that a file is found that its job wrote unseen.

The record of the driver shows what the job's Python code does there. What Python's workers, libraries in C, Java and
other programs write shows in the files alone, and a listing does not say who wrote them. So it leaves out what
Streamwarden itself and the other streams write, and what people edit.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from streamwarden.adapters.store import Store
from streamwarden.config.rules import RESERVED_FOLDERS
from streamwarden.drills.records.outside import Outside
from streamwarden.lifecycle.driver_folder import read_document, write_document
from streamwarden.lifecycle.forks.places import SUFFIX
from streamwarden.lifecycle.forks.scripts import input_place, output_place
from streamwarden.lifecycle.location import plain_path
from streamwarden.services.analysis.jobs import job_facts
from streamwarden.stream.spec import StreamSpec

MOST: Final = 20_000
"""Files that are listed: some 200 ms, and 2 MB in the drill's folder."""

LISTING: Final = "around.json"
"""The file, in the folder of a drill's run, with the listing before the fork's first driver."""

_OURS: Final = (*RESERVED_FOLDERS, "airflow", "airflow.lock", "crash_matrix", "dev")
"""What Streamwarden and a local Airflow write in the data folder."""

_THEIRS: Final = frozenset(
    {"__pycache__", "metastore_db", "spark-warehouse", "derby.log", "logs", "airflow.db", "airflow.cfg"}
)
"""What Python, Spark and Airflow write into any folder."""

_EDITED: Final = (".css", ".html", ".ipynb", ".js", ".lock", ".md", ".py", ".rst", ".sql", ".toml", ".yaml", ".yml")
"""Files of a project that people change, whatever runs."""

_PATTERN: Final = re.compile(r"/[^/]*[*?\[{].*")

_NAMED: Final = 1000
"""Changed files that the journal names."""

_Stamp = Sequence[int]
"""Size and modification time (ns) of a file."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Args:
    at: Unix seconds. files: path -> stamp, in the order in which they were found. whole: there were not more.
    """

    at: float
    files: Mapping[str, _Stamp]
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Around:
    """Finds what changes around a drill.

    Args:
        streams: all that are declared; store: knows which drivers ran.
    """

    streams: Callable[[], Iterable[StreamSpec]]
    store: Store

    def keep(self, origin: StreamSpec, run: Path, now: float) -> None:
        """List the files before the drill's first driver starts. Raises OSError if the list cannot be kept."""
        listing = listed(roots_of(origin), self._left_out(origin), now)
        document = {"at": listing.at, "files": listing.files, "whole": listing.whole}
        write_document(run / LISTING, document)

    def compared(self, origin: StreamSpec, run: Path, found: Outside, now: float) -> Outside:
        """What the drivers recorded, with what changed since `keep`. A drill without a listing has only the former."""
        document = read_document(run / LISTING)
        if document is None:
            return found
        before = Listing(**document)
        after = listed(roots_of(origin), self._left_out(origin), now)
        changed = [path for path in changes(before, after) if path not in found.files][:_NAMED]
        beside = self._beside(before.at) if changed else ()
        whole = before.whole and after.whole
        return replace(found, changed=tuple(changed), beside=beside, listed=None if whole else MOST)

    def _left_out(self, origin: StreamSpec) -> frozenset[str]:
        places = {place for stream in (origin, *self.streams()) for place in places_of(stream)}
        places |= {str(Path(origin.data, name)) for name in _OURS}
        return frozenset(os.path.realpath(place) for place in places if "://" not in place)

    def _beside(self, since: float) -> tuple[str, ...]:
        """The streams whose drivers ran since then, without forks: a drill's own, and those of other drills, work in
        folders of their own."""
        running = self.store.drivers.ran_since(since)
        return tuple(dict.fromkeys(name for name in running if SUFFIX not in name))


def places_of(stream: StreamSpec) -> Iterator[str]:
    """The folders in which a stream and its producers write, as far as its file and its script's text name them."""
    named = [stream.checkpoint, *stream.queries.values(), *stream.source.folders, stream.sink.path, stream.quarantine]
    if not stream.sink.DECLARED:
        job = job_facts(stream)
        named += [output_place(stream, query) for query in job.named]
        named += [query.checkpoint for query in job.named]
        named += [input_place(stream, source) for source in job.inputs]
    for place in filter(None, named):
        yield str(Path(stream.data, _PATTERN.sub("", plain_path(place)))) if "://" not in place else place


def roots_of(origin: StreamSpec) -> list[str]:
    """The data folder, the project and the job's folder, without those that are in another one of them."""
    given = [Path(os.path.realpath(place)) for place in (origin.data, origin.project) if place]
    given += [Path(os.path.realpath(origin.job)).parent]
    return [str(root) for root in dict.fromkeys(given) if not any(other in root.parents for other in given)]


def listed(roots: Iterable[str], left_out: frozenset[str], now: float, most: int = MOST) -> Listing:
    """The files below the roots. A folder that cannot be read, or vanishes meanwhile, counts as empty."""
    files: dict[str, _Stamp] = {}
    pending = sorted(roots, reverse=True)
    while pending:
        folder = pending.pop()
        for entry in _entries(folder):
            if _is_left_out(entry, left_out):
                continue
            if entry.is_dir(follow_symlinks=False):
                pending.append(entry.path)
                continue
            if len(files) >= most:
                return Listing(now, files, whole=False)
            with suppress(OSError):
                stat = entry.stat(follow_symlinks=False)
                files[entry.path] = [stat.st_size, stat.st_mtime_ns]
    return Listing(now, files)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name, reverse=True)
    except OSError:
        return []


def _is_left_out(entry: os.DirEntry[str], left_out: frozenset[str]) -> bool:
    name = entry.name
    if name.startswith((".", "streamwarden.db")) or name in _THEIRS or name.endswith(_EDITED):
        return True
    return entry.path in left_out


def changes(before: Listing, after: Listing) -> list[str]:
    """The files that are new, have another size or time, or are gone. Of a listing that was cut off those that both
    have. Pure."""
    whole = before.whole and after.whole
    both = before.files.keys() & after.files.keys()
    changed = {path for path in both if list(before.files[path]) != list(after.files[path])}
    return sorted(changed | (before.files.keys() ^ after.files.keys() if whole else set()))
