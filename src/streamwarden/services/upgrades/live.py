"""The stream that is upgraded: started and stopped as `streamwarden start` and `stop` do, whoever supervises it."""

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamwarden.adapters.storage.files import checkpoint_of
from streamwarden.checkpoint.formats.logs import log_position
from streamwarden.errors import ConfigError, StreamwardenError
from streamwarden.health.verdict import Status, Verdict
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.lifecycle.supervision.restart import describe
from streamwarden.lifecycle.supervision.standby import is_kept
from streamwarden.lifecycle.supervision.stop import Desired
from streamwarden.lifecycle.upgrades.journal import Seen
from streamwarden.services.fleet.airflow_supervision import hand_over
from streamwarden.services.fleet.exits.driver_ids import driver_folders
from streamwarden.services.fleet.fleet import Fleet
from streamwarden.services.fleet.standbys.preparing import prepare_next
from streamwarden.services.fleet.standbys.waiting import waiting
from streamwarden.services.monitoring.health_monitor import HealthMonitor
from streamwarden.stream.spec import StreamSpec
from streamwarden.units import Seconds
from streamwarden.waiting import wait_until

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store

READY_WITHIN: Final[Seconds] = 180.0
"""Seconds for which a standby of the new version is awaited while the old version runs."""


@dataclass
class LiveStream:
    """Args:
    declared: reads the stream's file as it is now.
    by: who upgrades it.
    critical: see `Upgrade`.
    """

    store: "Store"
    fleet: Fleet
    monitor: HealthMonitor
    declared: Callable[[], StreamSpec]
    by: str
    say: Callable[[str], None]
    critical: frozenset[str] = field(default=frozenset())

    def is_critical(self) -> tuple[str, ...]:
        """The checks that are CRITICAL now. Raises StoreError."""
        return tuple(sorted(verdict.check for verdict in self._critical(self.declared())))

    def require_wanted(self, stream: str) -> None:
        """Raises ConfigError for a stream that a person has stopped."""
        state = self.store.stops.desired(stream)
        if state is not None and state.desired is Desired.STOPPED:
            raise ConfigError(
                f"{stream} was stopped by {state.changed_by}: {state.reason}",
                expected="a stream that runs, so that the new version can be watched",
                where=stream,
                next_step=f"try the new version with `--preflight`, and change the stream's file; or run `streamwarden "
                f"start {stream}` first",
            )

    def prepare(self, spec: StreamSpec) -> None:
        """Have a standby wait for the start of a new version, so that the switch starts no process. Does nothing for a
        stream that keeps none; one that cannot be prepared is said, and the switch starts a process."""
        if not is_kept(spec):
            return
        self.say("starting a standby of the new version")
        data = Path(spec.data)
        try:
            folder = prepare_next(spec, data, self.store.url)
        except (StreamwardenError, OSError) as error:
            self.say(f"no standby was prepared: {error}")
            return

        def is_ready() -> bool:
            found = [one for one in waiting(driver_folders(data, spec.name)) if one.folder == folder]
            return not found or found[0].is_ready(time.time())

        wait_until(is_ready, within=READY_WITHIN, every=0.5)

    def stop(self, reason: str) -> None:
        seen = self.fleet.stop(self.declared().name, requested_by=self.by, reason=reason)
        if seen is not None and seen.exit is not None:
            self.say(describe(seen.exit))

    def start(self, reason: str) -> None:
        spec = self.declared()
        self.fleet.set_running(spec.name, self.by, reason)
        self.fleet.start(spec, launched_by=self.by, announce=self.say)
        supervision = hand_over(self.store, spec.name, environ=os.environ, now=time.time())
        if supervision is not None and supervision.problem is not None:
            self.say(f"{supervision.dag_id} could not be unpaused in Airflow: {supervision.problem}")

    def look(self, since: float) -> Seen:
        spec, now = self.declared(), time.time()
        latest = self.store.drivers.latest(spec.name)
        seen = None if latest is None else self.fleet.observe(latest.driver_id)
        ended = None if seen is None else seen.exit
        failed = ended is not None and ended.kind not in (ExitKind.COMPLETED, ExitKind.STOPPED)
        position = None
        with contextlib.suppress(StreamwardenError, OSError):
            position = log_position(checkpoint_of(spec))
        return Seen(
            now=now,
            started=None if latest is None or latest.launched_at < since else latest.started_at,
            ended=describe(ended) if ended is not None and failed else None,
            completed=ended is not None and ended.kind is ExitKind.COMPLETED,
            stopped=ended is not None and ended.kind is ExitKind.STOPPED,
            launches=len(self.store.drivers.history(spec.name, since)),
            planned=None if position is None else position.planned,
            committed=None if position is None else position.committed,
            critical=tuple(f"{verdict.check} ({verdict.reason})" for verdict in self._critical(spec)),
        )

    def _critical(self, spec: StreamSpec) -> list[Verdict]:
        verdicts = self.monitor.judge(spec, time.time())
        return [each for each in verdicts if each.status is Status.CRITICAL and each.check not in self.critical]
