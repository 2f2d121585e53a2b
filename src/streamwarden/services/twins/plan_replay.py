"""Writes a batch's plan into the checkpoint of a twin: the offsets of another run, and what that run's sources had
read by then.

Spark executes only the newest planned batch of a checkpoint again. So the plans are laid one at a time, each after the
commit of the one before it. Offsets, watermark and time of the batch are then those of the other run.
"""

import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from streamwarden.adapters.storage.files import link_or_copy, open_path
from streamwarden.checkpoint.filesystem import Location, join
from streamwarden.checkpoint.formats.layout import (
    COMMITS,
    METADATA,
    OFFSETS,
    batch_ids,
    list_or_empty,
    parse_object,
    read_whole_log,
)
from streamwarden.checkpoint.formats.logs import OffsetRecord
from streamwarden.checkpoint.formats.uris import to_path
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.forks import plan as plans
from streamwarden.lifecycle.forks.places import Places
from streamwarden.lifecycle.forks.plan import Link, Write
from streamwarden.services.forks.copying import rewritten
from streamwarden.services.forks.files import carry_out
from streamwarden.services.forks.gathering import survey_logs

_POLL: Final = 0.2
"""Seconds between two looks at a run that goes on."""


@dataclass
class Laying:
    """Writes one run's batches.

    Args:
        run: the checkpoint of the run, which has ended.
        source: the folder of its input, for a file source; None: the twin reads the same files as the run.
        places: of the twin, on this host.
    """

    run: Location
    source: str | None
    places: Places
    _laid: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._logs = survey_logs(self.run)
        if not Path(join(self.places.checkpoint, METADATA)).exists():  # Spark refuses offsets without it
            carry_out([plans.metadata_step(self.places, str(uuid.uuid4()))], self.run.fs, None)

    def lay(self, batch: int) -> None:
        """Raises CheckpointError if the run's logs lack what the batch read, or it is not the twin's next batch."""
        first, last = self._group(batch)
        record = self._record(last)
        self._require_next(batch)
        for each in range(first, last + 1):
            self._require_executable(self._record(each))
        logs = plans.source_logs(self._logs, last)
        same = logs if self.source is None else []
        own = self._new([*plans.starting_logs(self._logs, record), *same])
        carry_out([*self._offsets(batch), *map(self._link, own)], self.run.fs, None)
        step = partial(plans.source_log_step, source=self.source or "")
        logs = self._new([name for name in logs if name not in same])
        steps = (rewritten(self.run, name, self.places, step, "a whole log of the file source") for name in logs)
        carry_out(steps, self.run.fs, None)
        self._laid.update(own, logs)

    def _group(self, batch: int) -> tuple[int, int]:
        """The first and the last batch of the run whose input the batch has."""
        return batch, batch

    def _offsets(self, batch: int) -> list[Link | Write]:
        return [self._link(name) for name in self._new([join(OFFSETS, str(batch))])]

    def _link(self, name: str) -> Link:
        return Link(join(self.run.path, name), join(self.places.checkpoint, name))

    def _new(self, names: list[str]) -> list[str]:
        """The files that the twin does not have. What it took over when it was made must not be written again: its
        files may be links."""
        candidates = [name for name in names if name not in self._laid]
        return [name for name in candidates if not Path(join(self.places.checkpoint, name)).exists()]

    def _require_next(self, batch: int) -> None:
        done = max(batch_ids(list_or_empty(open_path(self.places.checkpoint) / COMMITS)), default=None)
        wanted = 0 if done is None else done + 1
        if batch != wanted:
            raise CheckpointError(
                f"batch {batch} cannot be executed next: the twin's newest committed batch is {done}",
                expected=f"batch {wanted}",
                where=self.places.checkpoint,
                next_step="run the drill again: its twin must begin with the batch after which the fork began",
            )

    def _require_executable(self, record: OffsetRecord) -> None:
        """Spark refuses to execute a batch that changes the number of partitions: it was no batch of the query."""
        before = self._logs.offsets.get(record.batch - 1)
        if before is not None and before.shuffle_partitions != record.shuffle_partitions:
            raise CheckpointError(
                f"batch {record.batch} is a repartition of the state, from {before.shuffle_partitions} to "
                f"{record.shuffle_partitions} partitions, and no twin can execute it",
                expected="batches that the query planned",
                where=self.run.path,
                next_step=f"begin after batch {record.batch}: rewind less far, or wait for later batches",
            )

    def _record(self, batch: int) -> OffsetRecord:
        try:
            return self._logs.offsets[batch]
        except KeyError:
            raise CheckpointError(
                f"offsets/{batch} is gone or cannot be read",
                expected="the offsets of each batch of the run",
                where=self.run.path,
                next_step="run the drill again: its forks keep all offsets",
            ) from None


@dataclass
class MergedLaying(Laying):
    """Writes batches that have the input of several of the run, as a longer trigger would have planned them: with the
    watermark that was in force before the first of them, and the time at which the last one was planned.

    Args:
        groups: batch -> the first and the last batch of the run.
    """

    groups: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    def _group(self, batch: int) -> tuple[int, int]:
        return self.groups[batch]

    def _offsets(self, batch: int) -> list[Link | Write]:
        first, last = self.groups[batch]
        log = read_whole_log(self.run / join(OFFSETS, str(last)))
        head = {**parse_object(log.lines[0]), "batchWatermarkMs": self._record(first).watermark_ms}
        lines = [f"v{log.version}", json.dumps(head, separators=(",", ":")), *log.lines[1:]]
        return [Write(join(self.places.checkpoint, OFFSETS, str(batch)), "\n".join(lines))]


@dataclass
class FollowingLaying(Laying):
    """Writes the batches of a run that goes on, and links the files that they read.

    Args:
        connection: to the object store of the input, if it is in one.
    """

    connection: str | None = None

    def lay(self, batch: int) -> None:
        self._logs = survey_logs(self.run)
        if self.source is not None and batch in self._logs.offsets:
            for name in self._new(plans.source_logs(self._logs, batch)):
                self._take_input(self.source, name)
        super().lay(batch)

    def _take_input(self, source: str, log: str) -> None:
        """What the log names and is not there: files that came after the fork was made."""
        origin = open_path(source, self.connection)
        for line in read_whole_log(self.run / log).lines:
            path = to_path(str(parse_object(line)["path"]))
            target = Path(self.places.input, path.removeprefix(f"{origin.path.rstrip('/')}/"))
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                with suppress(FileNotFoundError):  # a file of an earlier batch, which was cleaned up
                    link_or_copy(Location(origin.fs, path), target)


def follow(run: Location, first: int, upto: Callable[[], int | None]) -> Iterator[int]:
    """The batches of a run that goes on, from `first` on, each when it is committed there.

    Args:
        upto: the batch after which it ends; None: that is not known yet.

    Raises CheckpointError if the run does not keep the next one any more, or was put back.
    """
    batch = first
    while (last := upto()) is None or batch <= last:
        there = batch_ids(list_or_empty(run / COMMITS))
        if batch in there:
            yield batch
            batch += 1
        elif there and not min(there) <= batch <= max(there) + 1:
            raise CheckpointError(
                f"batch {batch} cannot be executed next: the stream keeps the batches {min(there)} to {max(there)}",
                expected="a version that is not slower than the stream, which only goes forward meanwhile",
                where=run.path,
                next_step="begin again; if the new version is slower, make it faster, or upgrade without `--beside`",
            )
        else:
            time.sleep(_POLL)


def batches_of(run: Location, after: int | None) -> list[int]:
    """The committed batches of a run, ascending, that come after batch `after`; None: all.

    Raises CheckpointError if there is none, or one is missing.
    """
    first = 0 if after is None else after + 1
    batches = [batch for batch in sorted(batch_ids(list_or_empty(run / COMMITS))) if batch >= first]
    expected = range(first, max(batches, default=first) + 1)
    missing = [batch for batch in expected if batch not in batches]
    if missing:
        raise CheckpointError(
            f"commits/ lacks batch {missing[0]}",
            expected=f"every batch from {first} on",
            where=run.path,
            next_step="run `streamwarden inspect` on the checkpoint; then run the drill again",
        )
    return batches
