"""The verdict on a run of real drivers, with what their launcher recorded: where each of them started."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamwarden.services.fleet.recorded_starts import starts_of
from streamwarden.services.verifying import verification
from streamwarden.stream.spec import StreamSpec
from streamwarden.verification.comparing.starts import Start
from streamwarden.verification.reconciliation import Reconciliation
from support.spark.drivers import OPEN


def recorded(stream: str, query: str | None = None) -> tuple[Start, ...]:
    """The starts of a stream's drivers, in whichever open project they ran. A forged copy of a run has its name.

    Args:
        query: of a script's fork.
    """
    found: list[Start] = []
    for made in OPEN:
        checkpoints = {record.checkpoint for record in made.store.drivers.history(stream, 0.0)}
        for checkpoint in sorted(checkpoints):
            found += starts_of(made.store, stream, checkpoint, query)
    return tuple(sorted(found, key=lambda start: start.at))


def verify(spec: StreamSpec, *, starts: Sequence[Start] | None = None, **options: Any) -> Reconciliation:
    """`adapters.verification.verify` with the recorded starts of the stream, unless others are given."""
    return verification.verify(spec, starts=recorded(spec.name) if starts is None else starts, **options)
