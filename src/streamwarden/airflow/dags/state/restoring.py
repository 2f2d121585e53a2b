"""`restore_stream`: puts a stream back to a savepoint."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import Param

from streamwarden.airflow.dags.controls import REASON
from streamwarden.airflow.dags.state.forms import savepoint
from streamwarden.airflow.dags.state.operations import STOP_FIRST, Asked, Checked, Done, Operation
from streamwarden.drills.reporting.report import show_time
from streamwarden.lifecycle.exchanges.exchange import RESTORED
from streamwarden.stream.spec import StreamSpec
from streamwarden.units import format_count

if TYPE_CHECKING:
    from streamwarden.services.exchanges.exchanging import Exchanged
    from streamwarden.services.savepoints.restoring import Request

_DOC: Final = """\
Puts a stream back to a savepoint: its checkpoint, and its output with it.

It verifies the savepoint, asks a person for approval, tries the savepoint on a fork, and then puts the stream back. The
previous checkpoint and the data files of later batches are kept. A stream that runs is refused, unless the form says
that it may be stopped at a batch boundary: then it is started again afterwards. A restore that was interrupted is
completed by another run. On a shell: `streamwarden savepoint restore`.
"""

TRY_FIRST: Final = Param(
    True,
    type="boolean",
    title="Try it first",
    description="Run a fork of the savepoint first: its driver has to start and to commit a batch; otherwise nothing "
    "is restored",
)


class Restore(Operation):
    """Puts a stream back to a savepoint."""

    dag_id, doc, name, event = "restore_stream", _DOC, "restore", RESTORED

    def fields(self) -> dict[str, Param]:
        return {"savepoint": savepoint(), "reason": REASON, "stop_first": STOP_FIRST, "try_first": TRY_FIRST}

    def check(self, asked: Asked) -> Checked:
        from streamwarden.services.exchanges.journals import interrupted
        from streamwarden.services.savepoints.previewing import preview_restore
        from streamwarden.services.savepoints.saved import Savepoints

        spec = asked.spec
        saved = Savepoints.of(spec).get(asked.params["savepoint"])
        remains = "" if interrupted(spec) is not None else preview_restore(spec, saved.id).remains
        why = f", {saved.reason}" if saved.reason else ""
        taken = f"batch {saved.batch}, taken at {show_time(saved.taken_at.timestamp())} by {saved.by}{why}"
        return Checked(
            subject=f"Put the stream {spec.name} back to the savepoint {saved.id}?",
            said={"Savepoint": f"{taken}. It was verified.", **taken_back(spec, saved.batch, remains)},
            details={"savepoint": saved.id},
        )

    def carry_out(self, asked: Asked, details: Mapping[str, Any]) -> Done:
        from streamwarden.services.savepoints.restoring import restore

        return put_back(restore(asked.space.store, asked.spec, details["savepoint"], request(asked)))


def taken_back(spec: StreamSpec, batch: int, remains: str) -> dict[str, str]:
    """What a request says of a stream that goes back to a batch.

    Args:
        remains: what the output cannot take back; the approval confirms it. Empty: everything is taken back.
    """
    from streamwarden.adapters.storage.files import checkpoint_of
    from streamwarden.checkpoint.formats.logs import log_position

    committed = log_position(checkpoint_of(spec)).committed
    later = max((committed if committed is not None else batch) - batch, 0)
    batches = f"{format_count(later, 'committed batch')} after it, up to batch {committed}"
    output = spec.sink.place or spec.sink.kind
    said = {"Taken back": f"{batches}; they are read and written again. Output: {output}."}
    return {**said, "Remains": f"{remains}. Whoever approves confirms that."} if remains else said


def request(asked: Asked) -> "Request":
    """What the person approved includes what remains in the output."""
    from streamwarden.services.savepoints.describing import Author
    from streamwarden.services.savepoints.proving import proof_on_fork
    from streamwarden.services.savepoints.restoring import Request

    prove = proof_on_fork(asked.space.fleet, asked.spec, asked.by) if asked.params["try_first"] else None
    return Request(author=Author(by=asked.by, reason=asked.params["reason"]), confirmed=True, prove=prove)


def put_back(done: "Exchanged") -> Done:
    """The end of a restore in words."""
    made, aside = done.exchange, done.aside or "there was none"
    return Done(
        sentence=f"{made.stream} is put back to {made.subject} and goes on after batch {made.batch}",
        more=f"{made.proof}; output: {done.output}; previous checkpoint: {aside}",
    )
