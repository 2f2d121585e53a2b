"""Tries a savepoint before a stream is put back to it: a fork's driver starts from it, and commits a batch.

The job as it is now reads the state, and Spark makes the checks that it makes at a start. If the stream has executed
the same batch, its rows are compared. A difference refuses nothing: a stream is often put back because its job was
wrong.
"""

from typing import TYPE_CHECKING, Final

from streamwarden.adapters.storage.files import checkpoint_of
from streamwarden.checkpoint.formats.logs import log_position
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.lifecycle.forks.fork import Fork
from streamwarden.lifecycle.savepoints.savepoint import Savepoint
from streamwarden.lifecycle.supervision.restart import describe
from streamwarden.services.auditing.work import work_folder
from streamwarden.services.forks.forks import drop_scratch
from streamwarden.services.forks.scripts import is_script
from streamwarden.services.savepoints.first_batch import NOT_COMPARED, compared
from streamwarden.services.savepoints.forking import fork_from
from streamwarden.services.savepoints.restoring import Proof
from streamwarden.stream.spec import StreamSpec

if TYPE_CHECKING:
    from streamwarden.services.fleet.exits.exit_recorder import Observation
    from streamwarden.services.fleet.fleet import Fleet

WITHIN: Final = 900.0
"""Seconds that the fork's first batch may take."""


def proof_on_fork(fleet: "Fleet", spec: StreamSpec, by: str) -> Proof:
    """The proof for a stream. `by`: who puts it back."""
    return lambda saved: _proven(fleet, spec, saved, by)


def _proven(fleet: "Fleet", spec: StreamSpec, saved: Savepoint, by: str) -> str:
    if is_script(spec):
        return "not tried on a fork, because a script opens its own checkpoint"
    with work_folder(spec) as folder:
        try:
            made = fork_from(spec, saved, folder / "tried")
        except CheckpointError as error:
            raise _refused(f"no fork of the savepoint {saved.id} can be made: {error.observed}", error.where) from error
        try:
            judged = _judged(saved, made, _run(fleet, made, saved.batch, by))
            rows = compared(spec, made.spec, saved.batch + 1) if _newest(made) > saved.batch else NOT_COMPARED
            return f"{judged}; {rows}"
        finally:
            drop_scratch(made.spec)


def _run(fleet: "Fleet", made: Fork, batch: int, by: str) -> "Observation":
    """The end of the fork's driver, which is stopped after the first batch after `batch`."""

    def is_done(seen: "Observation") -> bool:
        return not seen.alive or _newest(made) > batch

    driver = fleet.start(made.spec, launched_by=by).record.driver_id
    try:
        seen = fleet.wait(driver, timeout=WITHIN, until=is_done)
    finally:
        stopped = fleet.stop(made.spec.name, requested_by=by, reason="its savepoint was tried")
    return seen if not seen.alive or stopped is None else stopped


def _judged(saved: Savepoint, made: Fork, ended: "Observation") -> str:
    newest, good = _newest(made), (ExitKind.STOPPED, ExitKind.COMPLETED)
    if newest > saved.batch:
        return f"the driver of a fork started from it and committed batch {newest}"
    if ended.exit is None or ended.exit.kind not in good or made.unseen:
        what = "left no record of its end" if ended.exit is None else describe(ended.exit)
        observed = f"a fork of the savepoint {saved.id} does not go on from it: {what}"
        raise _refused(observed, f"{ended.record.folder}/driver.log")
    return "the driver of a fork started from it, and there was nothing to read"


def _newest(made: Fork) -> int:
    committed = log_position(checkpoint_of(made.spec)).committed
    return -1 if committed is None else committed


def _refused(observed: str, where: str) -> CheckpointError:
    return CheckpointError(
        f"nothing was changed: {observed}",
        expected="a driver that starts from the savepoint with the job as it is now, and commits a batch",
        where=where,
        next_step="correct the job, or choose another savepoint; `--no-proof` puts the stream back without trying it",
    )
