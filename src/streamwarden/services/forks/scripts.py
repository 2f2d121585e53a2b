"""Forks of streams whose job is a script: nothing is copied, and the fork's driver redirects each query.

Such a fork begins with empty checkpoints. It reads the stream's own input, which reading does not change.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

from streamwarden import sources
from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.filesystem import Location, join
from streamwarden.checkpoint.formats.layout import SINK_LOG
from streamwarden.checkpoint.formats.logs import all_offsets
from streamwarden.checkpoint.formats.sources import file_source_log, source_entries
from streamwarden.checkpoint.formats.uris import to_path
from streamwarden.checkpoint.pattern_names import read_again
from streamwarden.errors import CheckpointError, JobError
from streamwarden.lifecycle.forks.fork import InputFile
from streamwarden.lifecycle.forks.plan import log_ends
from streamwarden.lifecycle.forks.script_sources import is_hidden, is_read, is_recursive, is_whole
from streamwarden.lifecycle.forks.scripts import (
    ForkQuery,
    has_output,
    input_place,
    output_place,
    reads,
)
from streamwarden.lifecycle.job_files import has_build
from streamwarden.lifecycle.location import plain_path
from streamwarden.lifecycle.script_queries import NamedInput
from streamwarden.lint.facts import JobFacts
from streamwarden.lint.job_reader import read_job
from streamwarden.sources.base import StoredSource
from streamwarden.sources.changed_input import changed_since_read, input_changed
from streamwarden.stream.spec import SinkSpec, SourceSpec, StreamSpec, TriggerSpec

_READABLE: Final = tuple(
    name
    for kind in sources.KINDS.values()
    if issubclass(kind, StoredSource) and not kind.TABLE
    for name in kind.FORMATS
)
"""Formats of sources that a fork can read again, in lower case."""

_ENDLESS: Final = "makes rows for as long as the query runs, so that a fork of the script would never end"

_UNREADABLE: Final = {
    "socket": ("keeps no row that was read", "let the sender write to a topic or into files, and read these"),
    "rate": (_ENDLESS, "write a job with build() that declares `source: {kind: rate}`: its fork has a last batch"),
    "rate-micro-batch": (_ENDLESS, "read files or a topic; a job with build() can also declare `source: {kind: rate}`"),
}
"""Formats of sources that a fork cannot read: why, and what to do instead."""

_FOREIGN: Final = (
    "is not known to give the same rows again",
    "copy its rows into a topic or into files, and let the script read these",
)


def is_script(spec: StreamSpec) -> bool:
    """Whether the stream's job is a script. A job that does not exist is not."""
    job = Path(spec.job)
    return job.is_file() and not has_build(job)


def without_places(spec: StreamSpec) -> StreamSpec:
    """The stream as its script runs it: the script has its own sources and sinks, not those of the file."""
    return replace(spec, source=SourceSpec(), sink=SinkSpec(), quarantine=None)


def require_script_fork(spec: StreamSpec, rewind: int | Literal["all"] | None = "all", at: str | None = None) -> None:
    """Raises CheckpointError if a fork of the script could not redirect its queries, as far as its text shows, or for a
    fork that only a job with `build` can have."""
    where, job = spec.file or spec.name, _text(spec)
    if rewind not in ("all", None):
        raise CheckpointError(
            f"a fork of a script begins with empty checkpoints, and `rewind` is {rewind}",
            expected="`rewind: all`",
            where=where,
            next_step="set `fork.rewind` to `all`; a job with build() can be forked at a committed batch",
        )
    if at is not None:
        raise CheckpointError(
            f"a fork of a script cannot be at {at}: it is on this host",
            expected="no `fork.at`",
            where=where,
            next_step="remove `fork.at`",
        )
    try:
        require_repeatable(spec, [spec.trigger, *(query.trigger for query in job.named)], job.inputs)
    except JobError as error:
        raise CheckpointError.of(error) from error
    if not has_output(sink.format for sink in job.sinks):
        formats = ", ".join(sorted({str(sink.format) for sink in job.sinks}))
        raise CheckpointError(
            f"the script's queries write to {formats}, which keeps no output",
            expected="a query whose output remains: files, a table, a topic, or a function in foreachBatch",
            where=spec.job,
            next_step="drill a stream with an output: there is nothing that a drill could prove here",
        )
    for read, written in _chains(spec, job):
        raise CheckpointError(
            f"one query of the script reads {read}, and another one writes {written}: a fork redirects what it writes, "
            "so the first would read what the stream itself wrote",
            expected="a script whose queries do not read what the others write",
            where=spec.job,
            next_step="give each of the two queries a script and a stream, and drill each of them",
        )


def require_repeatable(spec: StreamSpec, triggers: Iterable[TriggerSpec | None], inputs: Iterable[NamedInput]) -> None:
    """Raises JobError if a query of the script runs in real-time mode, or reads a source that cannot be read again.

    A trigger or a format that is not known yet is accepted: the fork's driver sees it when the query starts.
    """
    if any(trigger is not None and trigger.real_time is not None for trigger in triggers):
        raise JobError(
            "the script runs a query in real-time mode, whose batches a twin cannot execute again",
            expected="a trigger that makes micro-batches, such as processingTime",
            where=spec.job,
            next_step="write a job with build() and an oracle, and set `verification.oracle: job`",
        )
    for source in inputs:
        format = source.format
        if format is not None and format.lower() not in _READABLE:
            why, next_step = _UNREADABLE.get(format.lower(), _FOREIGN)
            raise JobError(
                f"the script reads a source of the format {format}, which {why}",
                expected=f"sources that a fork can read again: {', '.join(_READABLE)}",
                where=spec.job if source.line is None else f"{spec.job}, line {source.line}",
                next_step=next_step,
            )


def _text(spec: StreamSpec) -> JobFacts:
    return read_job(spec.job, Path(spec.job).read_text(encoding="utf-8"))


def _chains(spec: StreamSpec, job: JobFacts) -> Iterator[tuple[str, str]]:
    outputs = [place for query in job.named if (place := output_place(spec, query)) is not None]
    for named in job.inputs:
        read = input_place(spec, named)
        yield from ((read, written) for written in outputs if read is not None and reads(read, written))


# The input


def script_input(spec: StreamSpec) -> list[InputFile] | None:
    """The files that the script reads, as far as its text or its stream's file names the folders; None: unknown."""
    inputs = _text(spec).inputs
    if spec.source.path is not None:
        places = [spec.source.path]
    elif not inputs or any(source.path is None for source in inputs):
        return None
    else:
        places = list(dict.fromkeys(str(input_place(spec, source)) for source in inputs))
    listings = [_listed(NamedInput(path=place), spec.storage.connection) for place in places]
    return None if None in listings else [file for files in listings for file in files or ()]


def listed(folders: Iterable[NamedInput], connection: str | None = None) -> dict[str, list[str]]:
    """The names of the files that these sources would read now, by folder. One that cannot be listed is left out."""
    listings = {str(source.path): _listed(source, connection) for source in folders}
    return {place: [file.name for file in files] for place, files in listings.items() if files is not None}


def _listed(source: NamedInput, connection: str | None) -> list[InputFile] | None:
    """The files that Spark reads in the folder of a source; None for a place with wildcards, one that cannot be listed,
    or the output of a query, whose manifest decides which of its files are read."""
    if not is_whole(source):
        return None
    folder, recursive = open_path(str(source.path), connection), is_recursive(source.options)
    try:
        if any(entry.name == SINK_LOG for entry in folder.entries()):
            return None
        files = list(folder.walk(skip=is_hidden))
    except OSError:
        return None
    return [InputFile(name, entry.size) for name, entry in files if is_read(name, recursive=recursive)]


def unplanned(query: ForkQuery, connection: str | None = None) -> int:
    """The files in the folders of a query that none of its batches has planned.

    Raises CheckpointError, also if the query reads something whose files cannot be counted.
    """
    files = listed(query.whole, connection)
    unknown = next((place for place in _places(query) if place not in files), None)
    if unknown is not None or not files:
        raise CheckpointError(
            f"how much of {unknown or 'its input'} the query {query.name} has yet to read is not known",
            expected="folders of files without wildcards and without options that leave files out",
            where=query.checkpoint,
            next_step="drill this script with a fault that does not need to know it, such as `kill_driver`",
        )
    return len(unread(query, files))


def _places(query: ForkQuery) -> list[str]:
    return [str(source.path or source.topic) for source in query.sources]


def unread(query: ForkQuery, files: Mapping[str, Collection[str]]) -> list[str]:
    """The files of the folders that a query reads as a whole which none of its batches has planned.

    Args:
        files: folder -> names of files below it; folders that are not there are not compared.

    Raises CheckpointError.
    """
    checkpoint = open_path(query.checkpoint)
    planned = {
        to_path(file.path)
        for source in _of_files(checkpoint)
        for files in source_entries(checkpoint, source).values()
        for file in files
    }
    places = dict.fromkeys(str(source.path) for source in query.whole)
    wanted = [join(plain_path(place), name) for place in places for name in files.get(place, ())]
    return [file for file in wanted if file not in planned]


def require_unchanged(query: ForkQuery, batches: Collection[int], connection: str | None = None) -> None:
    """Raises VerificationError if a file is no longer the one that these batches read; CheckpointError."""
    checkpoint = open_path(query.checkpoint)
    if changed := changed_since_read(checkpoint, _of_files(checkpoint), connection, batches):
        raise input_changed(changed)


def files_read_again(query: ForkQuery, batches: Collection[int]) -> list[str]:
    """Which of these batches read files more than once, in words. Raises CheckpointError."""
    checkpoint = open_path(query.checkpoint)
    logs = {source: file_source_log(checkpoint, source) for source in _of_files(checkpoint)}
    recursive = any(is_recursive(source.options) for source in query.sources)
    found = (again for source, log in logs.items() for again in read_again(log, source, recursive=recursive))
    return [str(again) for again in found if again.batch in batches]


def _of_files(checkpoint: Location) -> list[int]:
    """The places of the query's file sources."""
    return sorted({source for record in all_offsets(checkpoint).values() for source, _ in log_ends(record)})
