"""The whole bounded input of a run, batch by batch, with the processing time of each: the basis of an oracle for a job
in processing time.

Processing time is not a property of the input, so the times are the run's own. The oracle's result is still exact:
which rows belong together, what their sums are, and when a silence was over. The row counts add a check that needs no
time: each row of the input is in the output, or still open.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, TypeVar

from streamwarden.errors import VerificationError
from streamwarden.verification.batches import InputReplay, replay_input, some
from streamwarden.verification.oracle import RunFacts

__all__ = ["ClockedInput", "Tick", "replay_by_clock"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Tick(Generic[T]):
    """One committed batch.

    Args:
        at: when it was planned, Unix milliseconds: the processing time of all its rows and timers.
        rows: in the order of the files' modification, their names, and their lines.
    """

    batch: int
    at: int
    rows: Sequence[T]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockedInput(Generic[T]):
    """A bounded input as a run read it.

    Args:
        ticks: the committed batches in order.
        records, malformed: lines, and how many of them are not rows.
        unread: rows of files that no committed batch read; each such file is a problem too.
        problems: contradictions between the facts and the input, as text.
    """

    ticks: Sequence[Tick[T]] = field(repr=False)
    records: int
    malformed: int
    unread: int
    problems: tuple[str, ...]


def replay_by_clock(inputs: Sequence[Path], facts: RunFacts, *, decode: Callable[[str], T | None]) -> ClockedInput[T]:
    """Read every line of `inputs` and put each row into its batch.

    Args:
        decode: a line -> its row, or None if the line is malformed.

    Raises VerificationError if a file cannot be read, or a batch or its time is not in the facts.
    """
    order = {path.name: (path.stat().st_mtime_ns // 1_000_000, path.name) for path in inputs}
    files = {
        batch: sorted(read, key=lambda path: order.get(path.name, (0, path.name)))
        for batch, read in facts.files.items()
    }
    run: InputReplay[T] = replay_input(inputs, replace(facts, files=files), decode=decode, at=lambda _: 0, delay=None)
    timeless = [batch for batch in facts.watermarks if batch not in facts.times]
    if timeless:
        raise VerificationError(
            f"batch {timeless[0]} has no time ({len(timeless)} batches have none)",
            expected="the time at which each batch was planned: it is the clock of this job",
            where="offsets/",
            next_step="take the facts from the checkpoint (streamwarden.services.verifying.verification.read_facts)",
        )
    return ClockedInput(
        ticks=[
            Tick(batch, facts.times[batch], run.batches[batch])
            for batch in sorted(facts.watermarks)
            if batch <= run.committed
        ],
        records=run.records,
        malformed=run.malformed,
        unread=len(run.batches[None]),
        problems=(*run.problems, *_backwards(facts.times)),
    )


def _backwards(times: Mapping[int, int]) -> list[str]:
    """The host's clock may have been set back; a job in processing time guarantees nothing then."""
    return some(
        "clock that went back",
        [
            f"batch {batch} was planned {times[batch - 1] - times[batch]} ms before batch {batch - 1}"
            for batch in sorted(times)
            if batch - 1 in times and times[batch] < times[batch - 1]
        ],
    )
