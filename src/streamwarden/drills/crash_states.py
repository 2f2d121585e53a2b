"""Every state of a stream's files that a crash can leave, from the record of a run without one. Pure.

A record lists the changes of the files of a checkpoint and of its sink, in the order in which they happened. A kill
leaves a prefix of them, and perhaps a file that was half written. Storage that breaks its promises leaves more: a file
that has its name and only half its content, a file that is lost although later ones are there, or a file that is there
although an earlier one and all that came after that one are not yet.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

_PLACES: Final = (
    ("checkpoint/sources/", "sources"),
    ("checkpoint/offsets/", "offsets"),
    ("checkpoint/state/", "state"),
    ("checkpoint/commits/", "commits"),
    ("output/_spark_metadata/", "manifest"),
    ("output/_delta_log/", "log"),
    ("output/metadata/", "metadata"),
    ("output/", "data"),
    ("ledger/", "ledger"),
)
_COMMIT: Final = re.compile(r"checkpoint/commits/([0-9]+)")


class Change(StrEnum):
    """How an operation changes a file.

    `RENAMED`: written under another name, then renamed, so it is never half there. `WRITTEN`: under its
    own name. `REMOVED`: it went.
    """

    RENAMED = "renamed"
    WRITTEN = "written"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One change of one file.

    Args:
        path: below the folder that holds `checkpoint/` and `output/`.
        content: name under which the record keeps the content; empty for a file that went, and for a transaction.
        temporary: where a renamed file was while it was written; empty: unknown.
    """

    path: str
    change: Change
    content: str = ""
    temporary: str = ""

    @property
    def part(self) -> str:
        """The part of the stream's files: `offsets`, `state`, `data`, …"""
        return next((name for prefix, name in _PLACES if self.path.startswith(prefix)), "other")

    @property
    def commits(self) -> int | None:
        """The batch that it commits."""
        committed = _COMMIT.fullmatch(self.path)
        return None if committed is None or self.change is Change.REMOVED else int(committed[1])


class Origin(StrEnum):
    """The cause of a state: a kill of the driver, or only storage that breaks its promises."""

    KILL = "kill"
    STORAGE = "storage"


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashState:
    """A state of the files.

    Args:
        batch: the batch around which it lies; name: what a person reads.
        applied: the first operations of the record that happened.
        without: of these, those that are lost, or that had not happened when a later one did.
        torn: of these, one whose file has only the first half of its content. A kill leaves that under the temporary
            name, if the file had one; storage that breaks its promises leaves it under its own.
    """

    number: int
    batch: int
    name: str
    origin: Origin
    applied: int
    without: tuple[int, ...] = ()
    torn: int | None = None


def windows(operations: Sequence[Operation]) -> dict[int, tuple[int, int]]:
    """Batch -> its operations, as the range (first, behind the last): up to `commits/BATCH`, from the commit before."""
    spans: dict[int, tuple[int, int]] = {}
    begin = 0
    for index, operation in enumerate(operations):
        if operation.commits is not None:
            spans[operation.commits] = begin, index + 1
            begin = index + 1
    return spans


def with_ledger(operations: Sequence[Operation]) -> tuple[Operation, ...]:
    """The record of a run that writes into a database, with the transaction of each batch as `ledger/BATCH`.

    The transaction ends before the function of foreachBatch returns, and Spark commits the batch after that. So it is
    directly before `commits/BATCH`, and after all other writes of the batch.
    """
    record: list[Operation] = []
    for operation in operations:
        if operation.commits is not None:
            record.append(Operation(path=f"ledger/{operation.commits}", change=Change.RENAMED))
        record.append(operation)
    return tuple(record)


def ledger_of(operations: Sequence[Operation], state: CrashState) -> int | None:
    """The newest batch whose transaction a state has; None: it has none."""
    applied = (operation for index, operation in enumerate(operations[: state.applied]) if index not in state.without)
    batches = [int(operation.path.rpartition("/")[2]) for operation in applied if operation.part == "ledger"]
    return max(batches, default=None)


def crash_states(operations: Sequence[Operation], batches: Iterable[int]) -> list[CrashState]:
    """The states around `batches`: each prefix for all of them, and what broken storage leaves of the last.

    Raises ValueError if the record has no commit of one of them.
    """
    wanted, ranges = sorted(set(batches)), windows(operations)
    missing = [batch for batch in wanted if batch not in ranges]
    if missing:
        raise ValueError(f"the record has no commit of batch {missing[0]}")
    made = [state for batch in wanted for state in _killed(operations, batch, ranges[batch])]
    made += _broken(operations, wanted[-1], ranges[wanted[-1]])
    made += _reordered(operations, wanted[-1], ranges[wanted[-1]])
    return [replace(state, number=number) for number, state in enumerate(made)]


def _killed(operations: Sequence[Operation], batch: int, span: tuple[int, int]) -> Iterator[CrashState]:
    """Before the batch, after each of its operations, and within each file that is being written."""
    begin, end = span
    count = end - begin
    for index in range(begin, end):
        happened = index - begin
        after = f"after {happened} of {count} operations" if happened else "before its first operation"
        yield CrashState(number=0, batch=batch, name=f"batch {batch}, {after}", origin=Origin.KILL, applied=index)
        operation = operations[index]
        if operation.change is Change.WRITTEN or operation.temporary:
            name = f"batch {batch}, while {operation.path} is written"
            yield CrashState(number=0, batch=batch, name=name, origin=Origin.KILL, applied=index + 1, torn=index)


def _broken(operations: Sequence[Operation], batch: int, span: tuple[int, int]) -> Iterator[CrashState]:
    """The batch is complete, but one of its files is torn or lost."""
    begin, end = span
    for index in range(begin, end):
        operation = operations[index]
        if not _is_file(operation):
            continue
        torn, lost = f"{operation.path} has half its content", f"{operation.path} is lost"
        if operation.content:
            yield CrashState(number=0, batch=batch, name=torn, origin=Origin.STORAGE, applied=end, torn=index)
        yield CrashState(number=0, batch=batch, name=lost, origin=Origin.STORAGE, applied=end, without=(index,))


def _reordered(operations: Sequence[Operation], batch: int, span: tuple[int, int]) -> Iterator[CrashState]:
    """One file was stored ahead of an earlier one: neither that one is there, nor what came between or behind them.

    Of each two parts of the files, and of two files of one part, this makes the pair with the fewest operations in
    between; of several, the first. So there are at most as many states as pairs of parts.
    """
    begin, end = span
    nearest: dict[tuple[str, str], tuple[int, int]] = {}
    newest: dict[str, int] = {}
    for later in range(begin, end):
        part = operations[later].part
        if not _is_file(operations[later]):
            continue
        for other, earlier in newest.items():
            best = nearest.get((other, part))
            if best is None or later - earlier < best[1] - best[0]:
                nearest[other, part] = earlier, later
        newest[part] = later
    for earlier, later in sorted(nearest.values()):
        if (earlier, later) != (end - 2, end - 1):  # that is the batch without one of its files
            yield CrashState(
                number=0,
                batch=batch,
                name=f"{operations[later].path} is stored ahead of {operations[earlier].path}",
                origin=Origin.STORAGE,
                applied=later + 1,
                without=tuple(range(earlier, later)),
            )


def _is_file(operation: Operation) -> bool:
    """It makes a file that is not just the checksum of another one."""
    name = operation.path.rpartition("/")[2]
    checksum = name.startswith(".") and name.endswith(".crc")
    return operation.change is not Change.REMOVED and not checksum


def files_of(operations: Sequence[Operation], state: CrashState) -> Mapping[str, int]:
    """The files of a state: path -> the operation that gave each its content."""
    written_by: dict[str, int] = {}
    for index, operation in enumerate(operations[: state.applied]):
        if index in state.without or operation.part == "ledger":
            continue
        if index == state.torn and state.origin is Origin.KILL and operation.temporary:
            written_by[operation.temporary] = index
        elif operation.change is Change.REMOVED:
            written_by.pop(operation.path, None)
        else:
            written_by[operation.path] = index
    return written_by


class Ending(StrEnum):
    """How a restart from a state ended. Only `DIFFERENT` is a finding: nothing reported it."""

    RIGHT = "right"
    REFUSED = "refused"
    DIFFERENT = "different"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The restart from one state.

    Args:
        detail: what was reported, or how the output differs.
        seconds: of the restart and of its verification.
    """

    state: CrashState
    ending: Ending
    detail: str
    seconds: float


def counted(outcomes: Iterable[Outcome]) -> dict[Origin, dict[Ending, int]]:
    """Number of states by origin and ending."""
    counts = {origin: dict.fromkeys(Ending, 0) for origin in Origin}
    for outcome in outcomes:
        counts[outcome.state.origin][outcome.ending] += 1
    return counts
