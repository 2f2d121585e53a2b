"""Makes the fork that a drill breaks, below `DATA/drills/RUN_ID/fork`, and clears it away."""

from __future__ import annotations

import hashlib
import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from streamwarden.adapters.config import spec_to_dict
from streamwarden.adapters.drill_archive import DrillArchive
from streamwarden.adapters.files import LocalFiles
from streamwarden.adapters.forks import fork
from streamwarden.adapters.outputs import local_path
from streamwarden.adapters.verification import input_files
from streamwarden.checkpoint.sources import source_entries
from streamwarden.drills.ports import ForkView
from streamwarden.drills.spec import ForkSpec
from streamwarden.errors import DrillAborted
from streamwarden.stream import SourceKind, StreamSpec

FORK: Final = "fork"

_SCRATCH: Final = ("input", "checkpoint/state")
"""What of a fork is no evidence: links to the input, and the state. Logs and output stay."""

_RETAIN: Final = "spark.sql.streaming.minBatchesToRetain"
_RETAINED: Final = "100000"
"""A fork's logs are evidence, and the oracle reads every one of its offset entries: none may be purged."""


class DrillForks:
    """Implements `drills.ports.Forks`.

    Args:
        stream: the production stream's spec by name; raises ConfigError for one that is not there.
    """

    def __init__(self, archive: DrillArchive, stream: Callable[[str], StreamSpec]) -> None:
        self._archive = archive
        self._stream = stream

    def make(self, run_id: str, stream: str, spec: ForkSpec) -> ForkView:
        """Make the fork. Raises DrillAborted if there is no input to fork, else what `forks.fork` raises."""
        origin = self._stream(stream)
        into = self._archive.folder(run_id) / FORK
        shutil.rmtree(into, ignore_errors=True)  # half a fork that a killed try left; no driver was started on it
        _require_files(origin)
        made = fork(origin, into=into, rewind=spec.rewind)
        links = input_files(Path(str(made.spec.source.path)))
        unread = _unread(made.spec, links)
        bounded = _bounded(made.spec, run_id, len(unread), spec.batches)
        each = bounded.source.max_files_per_trigger
        return ForkView(
            stream=bounded.name,
            origin=origin.name,
            checkpoint=bounded.checkpoint,
            output=bounded.sink.path,
            batch=made.batch,
            files=len(unread),
            batches_left=math.ceil(len(unread) / each) if each else min(1, len(unread)),
            input_digest=digest(links),
            spec=spec_to_dict(bounded),
        )

    def clear(self, run_id: str, fork: ForkView | None) -> Sequence[str]:
        """Remove input links and state; all of a fork that was never finished."""
        into = self._archive.folder(run_id) / FORK
        targets = [into] if fork is None else [into / each for each in _SCRATCH]
        removed = []
        for target in targets:
            if target.exists():
                shutil.rmtree(target)
                removed.append(str(target.relative_to(into.parent)))
        return removed


def digest(files: Sequence[Path]) -> str:
    """SHA-256 over the sorted lines `NAME SIZE` of the input files: the same digest means the same list of files."""
    lines = sorted(f"{path.name} {path.stat().st_size}\n" for path in files)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _bounded(spec: StreamSpec, run_id: str, files: int, batches: int | None) -> StreamSpec:
    """The fork's spec with a name that is this run's alone (so that neither its drivers nor its health are mixed with
    those of another drill), logs that are kept, and the batches that were asked for."""
    origin = spec.name.split("__")[0]
    name = f"{origin[:40]}__fork_{hashlib.sha256(run_id.encode()).hexdigest()[:10]}"
    source = spec.source
    if batches is not None:
        source = replace(source, max_files_per_trigger=max(1, math.ceil(files / batches)))
    spark = replace(spec.spark, conf={_RETAIN: _RETAINED, **spec.spark.conf})
    return replace(spec, name=name, source=source, spark=spark)


def _unread(spec: StreamSpec, links: Sequence[Path]) -> list[Path]:
    """Input files that the fork's checkpoint does not count as read."""
    entries = source_entries(LocalFiles(), spec.checkpoint)
    read = {local_path(file.path).name for files in entries.values() for file in files}
    return [path for path in links if path.name not in read]


def _require_files(origin: StreamSpec) -> None:
    if origin.source.kind is not SourceKind.FILES or not origin.source.path:
        raise DrillAborted(
            f"the source of the stream is of kind {origin.source.kind}",
            expected="files: a fork needs an input that it can bound by links",
            where=f"stream {origin.name}",
            next_step="drill a stream that reads files",
        )
    if not Path(origin.source.path).is_dir():
        raise DrillAborted(
            "the stream's input folder is not there",
            expected="a folder with input files",
            where=origin.source.path,
            next_step="start the stream, or fill the folder (`streamwarden replay`)",
        )
