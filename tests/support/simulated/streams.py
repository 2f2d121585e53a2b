"""A live stream on the clock of a simulated world, with a supervision that starts it again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from streamwarden.drills.records.journal import DrillRun
from streamwarden.drills.records.types import ForkView, LiveStatus
from streamwarden.errors import DrillAborted
from streamwarden.health.incidents.incident import Incident
from streamwarden.lifecycle.supervision.restarter import Restarter
from streamwarden.stream.spec import StreamSpec
from streamwarden.verification.comparing.balance import Audit, Range

if TYPE_CHECKING:
    from support.simulated.drill_world import World


def balanced(upto: int, *, after: int = -1, rows: int = 120_000) -> Audit:
    """An audit whose books balance."""
    return Audit(
        stream="flights",
        range=Range(after=after, upto=upto),
        operator="aggregation",
        amounts=("flights",),
        counts="flights",
        entries=10,
        totals={"input": {"flights": rows}, "output": {"flights": rows}, "closing": {"flights": 0}},
    )


class SimulatedStreams:
    """Implements `drills.ports.LiveStreams`. A test sets the knobs."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.restarts_after: float | None = 5.0  # seconds; None: supervision never starts it again
        self.refusal: DrillAborted | None = None
        self.restarter = Restarter.DAG
        self.here = True
        self.stopped = False
        self.down: str | None = None
        self.incidents: tuple[Incident, ...] = ()
        self.audits: list[Audit] = []  # the next ones; else the books balance over all batches
        self.audited: list[int] = []
        self.launches: list[str] = []

    def start(self) -> None:
        """A driver of the stream, launched by its DAG, that has committed batches."""
        self.world.source, self.world.sink = "files", self.world.sink or "parquet"
        self.world._launch(self.view("flights"), "stream_flights")
        self.world.sleep(self.world.startup + 3 * self.world.batch_seconds + 0.1)

    def supervise(self) -> None:
        """Start the stream again if its driver has ended long enough ago."""
        last = next(reversed(self.world.drivers.values()), None)
        if self.restarts_after is None or last is None or last.exit is None or not self.launches_live():
            return
        if self.world.time >= last.exit.ended_at + self.restarts_after:
            self.launches.append(self.world._launch(self.view("flights"), "stream_flights").driver_id)

    def launches_live(self) -> bool:
        return all(driver.record.stream == "flights" for driver in self.world.drivers.values())

    def declared(self, stream: str) -> StreamSpec:
        from support.simulated.drill_specs import declared

        if self.refusal is not None:
            raise self.refusal
        spec = declared("files", self.world.sink or "parquet", self.world.master)
        return replace(spec, name=stream)

    def view(self, stream: str) -> ForkView:
        spec = self.declared(stream)
        return ForkView(
            stream=stream,
            origin=stream,
            checkpoint=spec.checkpoint,
            output="/data/departures",
            batch=None,
            unseen=None,
            batches_left=None,
            input_digest="",
            bounded=False,
            oracles=(),
            spec=spec,
        )

    def status(self, stream: str) -> LiveStatus:
        latest = self.world.latest(self.view(stream))
        return LiveStatus(
            driver=None if latest is None else self.world.observe(latest.driver_id),
            here=self.here,
            stopped=self.stopped,
            restarter=self.restarter,
            down=self.down,
            incidents=self.incidents,
            drills=tuple(self.world.journals.running()),
        )

    def past(self, stream: str) -> Sequence[DrillRun]:
        return self.world.journals.recent(stream=stream)[::-1]

    def audit(self, view: ForkView, first: int) -> Audit:
        self.audited.append(first)
        return self.audits.pop(0) if self.audits else balanced(max(self.world.committed))
