"""The live stream of a drill with `target: production`: how it stands, and its audit. Starts and removes nothing."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from streamwarden.adapters.storage.files import checkpoint_of
from streamwarden.adapters.store import Store
from streamwarden.checkpoint.formats.logs import log_position
from streamwarden.drills.records.journal import DrillRun
from streamwarden.drills.records.types import DriverView, ForkView, LiveStatus
from streamwarden.errors import ConfigError, DrillAborted, VerificationError
from streamwarden.lifecycle.driver import DriverRecord, ExitKind, ExitRecord
from streamwarden.lifecycle.supervision.restart import GiveUp, decide
from streamwarden.lifecycle.supervision.restarter import GAVE_UP, restarter
from streamwarden.lifecycle.supervision.stop import Desired
from streamwarden.lifecycle.supervision.supervisor import HISTORY, unforgiven
from streamwarden.services.auditing.auditing import audit
from streamwarden.services.auditing.records import record
from streamwarden.services.drilling.drillable import require_audit
from streamwarden.services.fleet.fleet import Fleet
from streamwarden.stream.spec import StreamSpec
from streamwarden.verification.comparing.balance import Audit

_MORE = 20
"""Batches that an audit covers beyond the needed ones, although `audit.batches` is smaller: some are committed while it
begins."""


@dataclass(frozen=True)
class LiveStreams:
    """Implements `drills.ports.LiveStreams`.

    Args:
        stream: the stream's spec by name; raises ConfigError if its file cannot be used.
        paused: whether the stream's DAG is paused; None: unknown.
    """

    store: Store
    fleet: Fleet
    data: Path
    stream: Callable[[str], StreamSpec]
    paused: Callable[[str], bool | None]

    def declared(self, stream: str) -> StreamSpec:
        """Raises DrillAborted for a stream whose books no audit can balance."""
        try:
            spec = self.stream(stream)
            require_audit(spec)
        except (ConfigError, VerificationError) as error:
            raise DrillAborted.of(error) from error
        return spec

    def view(self, stream: str) -> ForkView:
        """The stream under its own name, with its own checkpoint and output."""
        spec = self.declared(stream)
        return ForkView(
            stream=spec.name,
            origin=spec.name,
            checkpoint=spec.checkpoint,
            output=spec.sink.place,
            batch=None,
            unseen=None,
            batches_left=None,
            input_digest="",
            bounded=False,
            oracles=(),
            spec=spec,
        )

    def status(self, stream: str) -> LiveStatus:
        """Raises StoreError."""
        store, state = self.store, self.store.stops.desired(stream)
        latest = store.drivers.latest(stream)
        driver = None if latest is None else self._observe(latest.driver_id)
        events = [] if latest is None else store.drivers.events(latest.driver_id)
        return LiveStatus(
            driver=driver,
            here=latest is not None and self.fleet.is_running(latest.driver_id),
            stopped=state is not None and state.desired is Desired.STOPPED,
            restarter=restarter(events, self.paused(stream)),
            down=None if latest is None else self._why_down(stream, latest),
            incidents=tuple(store.incidents.open(stream)),
            drills=tuple(store.journals.running()),
        )

    def past(self, stream: str) -> Sequence[DrillRun]:
        return self.store.journals.recent(stream=stream)

    def audit(self, view: ForkView, first: int) -> Audit:
        """Audits as many batches as the stream's file says, or more if it takes more to reach back to `first`."""
        spec = view.spec
        committed = log_position(checkpoint_of(spec)).committed
        needed = (committed or 0) - first + _MORE
        last = None if spec.audit.batches is None else max(spec.audit.batches, needed)
        result = audit(spec, last=last)
        record(result, self.data, self.store, time.time())
        return result

    def _observe(self, driver_id: str) -> DriverView:
        observation = self.fleet.observe(driver_id)
        return DriverView(alive=observation.alive, record=observation.record, exit=observation.exit)

    def _why_down(self, stream: str, latest: DriverRecord) -> str | None:
        """Why the stream stays down, or would stay down if its driver were killed now."""
        gave_up = [event for event in self.store.drivers.events(latest.driver_id) if event.kind == GAVE_UP]
        if gave_up:
            return gave_up[-1].detail.get("reason", "supervision gave up")
        now = time.time()
        killed = ExitRecord(kind=ExitKind.KILLED, ended_at=now)
        history = [
            replace(driver, exit=killed) if driver.driver_id == latest.driver_id and driver.exit is None else driver
            for driver in self.store.drivers.history(stream, now - HISTORY) or (latest,)
        ]
        state = self.store.stops.desired(stream)
        decision = decide(unforgiven(history, state, self.store.drivers.events), self.stream(stream).restart, now)
        return decision.reason if isinstance(decision, GiveUp) else None
