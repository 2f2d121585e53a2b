"""Store: the only entry point to everything that Streamwarden stores."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from streamwarden.adapters.store.airflow_servers import SqlAirflowServerRepository
from streamwarden.adapters.store.database import Database
from streamwarden.adapters.store.drills.drill_schedules import SqlDrillScheduleRepository
from streamwarden.adapters.store.drills.journals import SqlJournalRepository
from streamwarden.adapters.store.drills.trials import SqlTrialRepository
from streamwarden.adapters.store.drivers.drivers import SqlDriverRepository
from streamwarden.adapters.store.drivers.leases import SqlLeaseRepository
from streamwarden.adapters.store.drivers.queries import SqlQueryRepository
from streamwarden.adapters.store.drivers.stops import SqlStopRepository
from streamwarden.adapters.store.history.batches import SqlBatchRepository
from streamwarden.adapters.store.history.measurements import SqlMeasurementRepository
from streamwarden.adapters.store.history.retention import KEEP, KEEP_HOURLY, Pruned, prune
from streamwarden.adapters.store.history.rollup import roll_up
from streamwarden.adapters.store.hosts import SqlHostRepository
from streamwarden.adapters.store.incidents.deliveries import SqlDeliveryRepository
from streamwarden.adapters.store.incidents.evaluations import SqlEvaluationRepository
from streamwarden.adapters.store.incidents.incident_actions import SqlIncidentActionRepository
from streamwarden.adapters.store.incidents.incidents import SqlIncidentRepository
from streamwarden.adapters.store.incidents.mutes import SqlMuteRepository
from streamwarden.adapters.store.incidents.verdicts import SqlVerdictRepository
from streamwarden.adapters.store.marks import SqlMarkRepository
from streamwarden.adapters.store.migrate import migrate
from streamwarden.adapters.store.publications import SqlPublicationRepository
from streamwarden.lifecycle.driver import ProcessIdentity
from streamwarden.lifecycle.lease import Liveness


def _alive_here(process: ProcessIdentity) -> bool | None:
    from streamwarden.adapters.processes import is_alive  # imported at the first claim: most users never claim

    return is_alive(process)


class Store:
    """Opens lazily: the constructor accesses no file and no network. Threads and forked children may share it.

    If the store is down, locked or damaged, every method of every repository raises StoreError, and no exception of
    SQLAlchemy, after at most `busy_timeout`.

    Args:
        url: `sqlite:///PATH` or `postgresql+DRIVER://user:password@host/name`.
        alive: returns whether the process of a lease lives; the default checks this host's processes.
        busy_timeout: seconds to wait for another writer.
        clock: this host's, in Unix seconds; leases in a database server go by the server's.

    Raises:
        StoreError: the URL cannot be read, or the driver for its database is not installed.
    """

    def __init__(
        self,
        url: str,
        *,
        alive: Liveness = _alive_here,
        busy_timeout: float = 2.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.url = url  # with its password: for the environment of a driver, never for a message
        self._database = Database(url, busy_timeout=busy_timeout)
        self.leases = SqlLeaseRepository(self._database, alive, clock)
        self.drivers = SqlDriverRepository(self._database)
        self.queries = SqlQueryRepository(self._database)
        self.stops = SqlStopRepository(self._database)
        self.hosts = SqlHostRepository(self._database)
        self.airflow_servers = SqlAirflowServerRepository(self._database)
        self.batches = SqlBatchRepository(self._database)
        self.measurements = SqlMeasurementRepository(self._database)
        self.verdicts = SqlVerdictRepository(self._database)
        self.incidents = SqlIncidentRepository(self._database)
        self.incident_actions = SqlIncidentActionRepository(self._database)
        self.mutes = SqlMuteRepository(self._database)
        self.journals = SqlJournalRepository(self._database)
        self.trials = SqlTrialRepository(self._database)
        self.evaluations = SqlEvaluationRepository(self._database)
        self.deliveries = SqlDeliveryRepository(self._database)
        self.drill_schedules = SqlDrillScheduleRepository(self._database)
        self.publications = SqlPublicationRepository(self._database)
        self.marks = SqlMarkRepository(self._database)

    def __repr__(self) -> str:
        return f"Store({self.where})"

    @property
    def where(self) -> str:
        """The URL, with passwords masked."""
        return self._database.where

    @property
    def is_server(self) -> bool:
        """Whether the store is a database server. A host can be cut off from one while it reaches its storage; a file
        is on the storage itself."""
        return self._database.path is None

    def version(self) -> tuple[int, ...] | None:
        """Changes with whatever anybody writes into an embedded store; None for a server, which has no such number.

        It is the size and the time of the file and of its log: what is written is appended to the log first."""
        return self._database.version()

    def migrate(self, *, timeout: float = 30.0) -> None:
        """Create the store or migrate it to this version's tables. Safe from many processes, quick if it is current.

        Args:
            timeout: seconds to wait for another process that migrates.
        """
        migrate(self._database, timeout=timeout)

    def roll_up(self, now: float) -> int:
        """Roll up the hours that ended by `now` and changed since; returns how many. Idempotent."""
        return roll_up(self._database, now)

    def prune(self, now: float, *, keep: float = KEEP, keep_hourly: float = KEEP_HOURLY) -> Pruned:
        """Remove raw rows older than `keep` seconds, each rolled up before; roll-ups and mutes after `keep_hourly`."""
        return prune(self._database, now, keep=keep, keep_hourly=keep_hourly)

    def require_answer(self) -> None:
        """Begin and end a transaction that writes nothing. Raises StoreError if the store takes no writes."""
        self._database.write(lambda connection: None)

    def close(self) -> None:
        """Close the connections. The store opens them again when it is used again."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
