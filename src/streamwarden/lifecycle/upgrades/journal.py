"""How far an upgrade is, and what comes next. Pure.

Production is always of the old version or of the new one, also if the upgrade is killed: what decides is the stream's
file, which is replaced by one rename. The steps, each of which does nothing if it was done before:

    PREPARED     stop at a batch boundary, take a savepoint there
    SWAPPED      replace the stream's file; take over the checkpoint of a version that ran beside; start, watch
    BACK         stop, restore the savepoint, put the previous file back, start
    DONE, ROLLED_BACK

The step is written before it is begun. In `BACK` the checkpoint is put back before the file: until then the stream is
as it was when the new version began, and after it as it was before.
"""

from dataclasses import dataclass
from enum import StrEnum

from streamwarden.units import format_count


class Step(StrEnum):
    """The step that an upgrade is in."""

    PREPARED = "prepared"
    SWAPPED = "swapped"
    BACK = "going back"
    DONE = "done"
    ROLLED_BACK = "rolled back"

    @property
    def is_end(self) -> bool:
        return self in (Step.DONE, Step.ROLLED_BACK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """The journal of an upgrade.

    Args:
        id: when it began; the name of its folder.
        before, after: the two jobs, for people.
        watch: seconds for which the new version is watched.
        critical: checks that were CRITICAL before: they say nothing about the new version.
        rollback: go back by itself if it fails; False: a person decides then.
    beside: the new version ran beside the old one, and takes over with the checkpoint of its fork.
        savepoint: where to go back to, and its batch; None until it was taken.
        swapped_at: Unix seconds: when the new version began; None until then.
        why: the reason of going back.
    """

    id: str
    stream: str
    step: Step
    by: str
    reason: str
    before: str
    after: str
    watch: float
    critical: tuple[str, ...] = ()
    rollback: bool = True
    beside: bool = False
    savepoint: str | None = None
    batch: int | None = None
    swapped_at: float | None = None
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A look at the stream while its new version is watched.

    Args:
        started: when its query started, Unix seconds; None: it has not, or the version could not be asked.
        ended: how its driver ended, if it failed; None: it did not.
        completed: it ended by itself, having processed all input.
        stopped: a person has stopped it.
        launches: drivers since the swap.
        planned, committed: the newest batch of each log.
        critical: checks that are CRITICAL, and were not before the upgrade, with the reason.
    """

    now: float
    started: float | None = None
    ended: str | None = None
    completed: bool = False
    stopped: bool = False
    launches: int = 1
    planned: int | None = None
    committed: int | None = None
    critical: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Judged:
    """The end of the watch. `well`: the new version stays."""

    well: bool
    why: str


def judged(upgrade: Upgrade, seen: Seen) -> Judged | None:
    """The verdict on the new version; None: it is watched on."""
    if seen.ended is not None:
        return Judged(well=False, why=f"its driver ended: {seen.ended}")
    if seen.launches > 1:
        return Judged(well=False, why="its driver ended, and was started again")
    if seen.critical:
        return Judged(well=False, why=f"CRITICAL: {'; '.join(seen.critical)}")
    count = (-1 if seen.committed is None else seen.committed) - (-1 if upgrade.batch is None else upgrade.batch)
    batches = format_count(count, "batch")
    if seen.completed:
        return Judged(well=True, why=f"it processed all input, in {batches}")
    if seen.stopped:
        return Judged(well=True, why=f"it was stopped after {batches}, while it was watched")
    if seen.started is None or seen.now < seen.started + upgrade.watch:
        return None
    if count > 0:
        return Judged(well=True, why=f"it committed {batches}")
    if seen.planned is not None and seen.planned != seen.committed:
        return None  # a version that has never ended a batch is not known to work
    return Judged(well=True, why="it waits for input, and has committed no batch")
