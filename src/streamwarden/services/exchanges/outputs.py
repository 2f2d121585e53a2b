"""Brings the output of a stream to the batch of the checkpoint that it gets."""

from streamwarden.adapters.storage.files import checkpoint_of, open_path
from streamwarden.checkpoint.formats.layout import OFFSETS
from streamwarden.checkpoint.formats.logs import log_position
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.exchanges.exchange import Exchange
from streamwarden.services.exchanges.quarantine import take_back
from streamwarden.sinks.base import Sink
from streamwarden.stream.spec import StreamSpec


def require_number_free(spec: StreamSpec, wanted: Exchange) -> None:
    """Raises CheckpointError if a rewritten checkpoint has a batch more than the stream's, and that batch may be in the
    output already, or its output is not declared: it could not be told that the batch has no rows."""
    live = log_position(checkpoint_of(spec))
    if wanted.goes_back or wanted.batch <= (live.committed or 0):
        return
    if live.gap:
        raise CheckpointError(
            f"batch {live.planned} is planned and not committed, and the {wanted.operation} would take its number: "
            "what it has written would be written again",
            expected="a stream that was stopped between two batches",
            where=spec.checkpoint,
            next_step=f"start {spec.name}, let it commit, and stop it with `streamwarden stop {spec.name}`",
        )
    if not isinstance(spec.sink, Sink):
        raise CheckpointError(
            f"the stream's output is not declared, and the {wanted.operation} adds batch {wanted.batch}, which an "
            "output with a record of its batches has to be told",
            expected="a sink that the stream's file declares",
            where=spec.file or spec.name,
            next_step="declare the sink of the stream",
        )
    spec.sink.require_passable(spec, wanted)


def bring_output(spec: StreamSpec, begun: Exchange) -> str:
    """Take back what was written after the batch of a restore, and note the batch that a rewrite has added; returns
    what was done. Repeated after a kill, it completes.

    Raises CheckpointError, OSError.
    """
    plan = _plan(spec, begun)
    if not begun.goes_back:
        done = spec.sink.pass_over(spec, begun, plan) if isinstance(spec.sink, Sink) else ""
        return done or "the output was not touched"
    assert isinstance(spec.sink, Sink)  # or it would not have begun
    output = spec.sink.restore_output(spec, begun, plan)
    if spec.quarantine is not None:
        take_back(open_path(spec.quarantine, spec.storage.connection), begun)
    return output


def _plan(spec: StreamSpec, begun: Exchange) -> bytes:
    """The plan of the batch. The prepared checkpoint has it until the stream's has."""
    try:
        return (open_path(begun.prepared, spec.storage.connection) / OFFSETS / str(begun.batch)).read()
    except FileNotFoundError:
        return (checkpoint_of(spec) / OFFSETS / str(begun.batch)).read()
