"""Gives a stopped stream another number of partitions of its state, through Spark's own rewriter.

Spark adds a batch to a copy of the checkpoint, which is linked: it only writes new files. The state before and after is
compared, every table and every store, and then the copy takes the checkpoint's place (`services.exchanges.exchanging`).
"""

import json
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from streamwarden.adapters.storage.files import checkpoint_of, open_path
from streamwarden.checkpoint.diagnosis.report import read_checkpoint
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.logs import offsets
from streamwarden.checkpoint.formats.uris import to_hadoop
from streamwarden.errors import CheckpointError, ProcessError
from streamwarden.lifecycle.exchanges.exchange import Exchange
from streamwarden.lifecycle.exchanges.repartition import (
    Repartition,
    plan,
    require_placed,
    require_same_plan,
    subject,
    wrong,
)
from streamwarden.lifecycle.forks.places import Places
from streamwarden.lifecycle.savepoints.plan import links
from streamwarden.lifecycle.savepoints.savepoint import Savepoint
from streamwarden.services.auditing.work import work_folder
from streamwarden.services.exchanges.exchanging import Change, Exchanged, exchange
from streamwarden.services.exchanges.outputs import require_number_free
from streamwarden.services.exchanges.refusals import require_on_disk
from streamwarden.services.fleet.launching.one_off_spark import run_program
from streamwarden.services.forks.files import carry_out
from streamwarden.services.forks.gathering import survey
from streamwarden.services.savepoints.creating import create
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.state.gathering import layout_of
from streamwarden.services.state.looking import reader
from streamwarden.services.state.two_states import StateAt, compare_states
from streamwarden.stream.spec import StreamSpec

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store

CORES: Final = 2
"""Cores of the rewriting process: a partition is written by one."""

_WITHIN: Final = 6 * 3600.0
"""Seconds after which the rewriting is given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repartitioned:
    """What was done. `savepoint`: taken before, the way back; None: an interrupted exchange was completed."""

    exchanged: Exchanged
    savepoint: Savepoint | None


def planned(spec: StreamSpec, partitions: int, *, runs: bool = False) -> Repartition:
    """What `repartition` would do; it writes nothing. Raises CheckpointError if it is not possible.

    Args:
        runs: the stream runs, and is going to be stopped first: a batch that it executes stands in no way.
    """
    require_on_disk(spec)
    wanted = plan(read_checkpoint(checkpoint_of(spec)), spec.name, partitions)
    if not runs:
        require_number_free(spec, _exchange(wanted, checkpoint_of(spec).path, "", Author(by="", reason="")))
    return wanted


def repartition(
    store: "Store",
    spec: StreamSpec,
    partitions: int,
    author: Author,
    *,
    tell: Callable[[str], object] = lambda _: None,
    now: Callable[[], float] = time.time,
) -> Repartitioned:
    """Give the state of a stopped stream this number of partitions, or complete a repartition that was killed.

    Args:
        tell: gets a sentence before each step that may take minutes.

    Raises:
        CheckpointError: it is not possible, or Spark's result is not the stream's state. Nothing is changed then.
        LeaseHeld: the stream runs.
        ProcessError: there is no usable Java, or the rewriting process died. Nothing is changed then.
        StoreError: the store is down.
    """
    taken: list[Savepoint] = []

    def change() -> Change:
        wanted = planned(spec, partitions)
        tell(f"takes a savepoint of batch {wanted.batch}")
        taken.append(create(spec, None, author, now=now))
        return _Repartition(spec, wanted, author, tell)

    done = exchange(store, spec, change, subject(partitions), now=now)
    return Repartitioned(exchanged=done, savepoint=taken[0] if taken else None)


@dataclass(frozen=True, slots=True)
class _Repartition(Change):
    spec: StreamSpec
    wanted: Repartition
    author: Author
    tell: Callable[[str], object]

    def planned(self, checkpoint: str, stamp: str) -> Exchange:
        return _exchange(self.wanted, checkpoint, stamp, self.author)

    def fill(self, exchange: Exchange) -> None:
        copy = open_path(exchange.prepared)
        try:
            self.tell(f"lets Spark rewrite the state of a copy in {self.wanted.after} partitions")
            _copy(self.spec, copy, self.wanted.batch)
            _rewrite(self.spec, copy, self.wanted.after)
            self.tell("compares the state before and after, table by table and byte by byte")
            _verify(self.spec, copy, self.wanted)
        except BaseException:
            shutil.rmtree(exchange.prepared, ignore_errors=True)  # what is wrong or half is of no use
            raise


def _exchange(wanted: Repartition, checkpoint: str, stamp: str, author: Author) -> Exchange:
    return Exchange(
        operation="repartition",
        subject=wanted.subject,
        command=f"streamwarden repartition {wanted.stream} --partitions {wanted.after}",
        stream=wanted.stream,
        query_id=wanted.query_id,
        batch=wanted.batch + 1,
        stamp=stamp,
        by=author.by,
        reason=author.reason,
        checkpoint=checkpoint,
    )


def _copy(spec: StreamSpec, copy: Location, batch: int) -> None:
    """The whole checkpoint with all batches that it keeps, so that older ones can still be looked at."""
    origin = checkpoint_of(spec)
    places = replace(Places.under(copy.path), checkpoint=copy.path)
    carry_out(links(survey(origin, None), places, batch), origin.fs, None)


def _rewrite(spec: StreamSpec, copy: Location, partitions: int) -> None:
    """Let Spark add the batch. Raises CheckpointError with what Spark says, ProcessError."""
    process = reader(spec, layout_of(spec, copy), cores=CORES)
    with work_folder(spec) as folder:
        request = {"checkpoint": to_hadoop(copy.path), "partitions": partitions}
        (folder / "request.json").write_text(json.dumps(request), encoding="utf-8")
        try:
            status = run_program("repartition", process, folder, reads=spec, within=_WITHIN)
        except subprocess.TimeoutExpired as error:
            raise _died(spec, f"it took longer than {_WITHIN:.0f} s") from error
        if (folder / "refused.json").exists():
            raise _refused(spec, json.loads((folder / "refused.json").read_text(encoding="utf-8")))
        if not (folder / "result.json").exists():
            said = (folder / "repartition.log").read_text(encoding="utf-8", errors="replace")
            raise _died(spec, f"Spark ended with {status}: {said[-1000:].strip()}")


def _verify(spec: StreamSpec, copy: Location, wanted: Repartition) -> None:
    """Raises CheckpointError unless the copy has the stream's state and plan, in other partitions."""
    origin, where = checkpoint_of(spec), spec.checkpoint
    before = StateAt(checkpoint=origin, batch=wanted.batch, partitions=wanted.before)
    after = StateAt(checkpoint=copy, batch=wanted.batch + 1, partitions=wanted.after)
    require_same_plan(offsets(origin, before.batch), offsets(copy, after.batch), wanted, where)
    found = compare_states(spec, before, after)
    if found.different:
        raise wrong("; ".join(table.words for table in found.different), where)
    require_placed(found.misplaced, wanted, where)


def _refused(spec: StreamSpec, said: str) -> CheckpointError:
    return CheckpointError(
        f"Spark refuses to repartition the state of {spec.name}, and nothing was changed: {said}",
        expected="a state that Spark's own rewriter takes",
        where=spec.checkpoint,
        next_step="keep the number of partitions, or begin anew with a new checkpoint path and a new output, in one "
        "change",
    )


def _died(spec: StreamSpec, observed: str) -> ProcessError:
    return ProcessError(
        f"the state of {spec.name} was not repartitioned, and nothing was changed: {observed}",
        expected="a rewriting process that ends with a new batch",
        where=spec.checkpoint,
        next_step="make room for one more copy of the state beside the checkpoint and in the temporary folder, then "
        "run the same command again",
    )
