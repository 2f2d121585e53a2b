"""Rewinds a stream: takes a savepoint of an older batch that its checkpoint still keeps, and puts the stream back to
it."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streamwarden.adapters.storage.files import checkpoint_of, output_of
from streamwarden.checkpoint.formats.logs import log_position
from streamwarden.lifecycle.exchanges.exchange import Exchange, OutputPlan, stamp_of
from streamwarden.lifecycle.forks.places import Places
from streamwarden.lifecycle.savepoints.rewind import batch_at
from streamwarden.services.exchanges.exchanging import Exchanged, exchange
from streamwarden.services.forks.gathering import survey
from streamwarden.services.savepoints.creating import create, gather
from streamwarden.services.savepoints.restoring import (
    Request,
    Restore,
    require_confirmed,
    require_restorable,
    restore_to,
)
from streamwarden.sinks.base import Sink
from streamwarden.stream.spec import StreamSpec

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a stream is rewound to: the end of a batch, or the newest batch that was planned at a time, Unix
    seconds."""

    batch: int | None = None
    at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RewindPlan:
    """What a rewind is going to do. `files`: of the checkpoint that are linked or copied."""

    wanted: Exchange
    output: OutputPlan
    files: int


def rewind(
    store: "Store", spec: StreamSpec, target: Target, request: Request, *, now: Callable[[], float] = time.time
) -> Exchanged:
    """Put a stopped stream back to an older batch of its own checkpoint. The savepoint stays.

    Raises what a restore does; CheckpointError if the checkpoint does not keep the batch, or an exchange was
    interrupted, which its own command completes.
    """

    def change() -> Restore:
        plan = plan_rewind(spec, target)
        require_confirmed(spec, plan.wanted, plan.output, request)  # before a savepoint is left behind
        return restore_to(spec, create(spec, plan.wanted.batch, request.author), request)

    return exchange(store, spec, change, "", now=now)


def plan_rewind(spec: StreamSpec, target: Target) -> RewindPlan:
    """Raises CheckpointError if it is not possible."""
    require_restorable(spec)
    assert isinstance(spec.sink, Sink)
    checkpoint, now = checkpoint_of(spec), time.time()
    batch = target.batch
    if target.at is not None:
        batch = batch_at(survey(checkpoint, output_of(spec)), round(target.at * 1000), round(now * 1000))
    found = gather(spec, batch)
    wanted = Exchange(
        operation="rewind",
        goes_back=True,
        subject=f"batch {found.batch}",
        command="",
        stream=spec.name,
        query_id=str(log_position(checkpoint).query_id),
        batch=found.batch,
        planned_ms=found.survey.offsets[found.batch].timestamp_ms,
        stamp=stamp_of(now),
        by="",
        reason="",
        checkpoint=checkpoint.path,
    )
    output = spec.sink.plan_restore(spec, wanted, output_of(spec) or checkpoint)  # only a sink of files looks there
    return RewindPlan(wanted=wanted, output=output, files=len(list(found.checkpoint_links(Places.under("")))))
