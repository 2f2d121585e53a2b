"""The registry of queries: which a driver may run, and the names under which they are kept."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from streamwarden.errors import JobError
from streamwarden.lifecycle.forks.scripts import inside
from streamwarden.lifecycle.location import is_temporary, same_place
from streamwarden.lifecycle.queries import QueryRecord, name_of
from streamwarden.spark.driver.sessions import StartedQuery
from streamwarden.stream.spec import StreamSpec


@dataclass(frozen=True, slots=True)
class Admission:
    """Args:
    record: the query under its name.
    renamed: the query that was the only one until now, under its old and its new name.
    """

    record: QueryRecord
    renamed: tuple[QueryRecord, QueryRecord] | None = None


class QueryRegistry:
    """Admits queries one after the other; any thread may read names meanwhile.

    The only query of a script has the stream's name. If the script's text does not show how many it starts, the first
    query has that name until a second one starts.

    Args:
        starts: how many queries the job starts, by its text; None where the text does not say.
        alone: the job is a module with `build`, whose one query the runner starts itself.
    """

    def __init__(
        self,
        spec: StreamSpec,
        driver_id: str,
        *,
        starts: int | None = None,
        alone: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._spec = spec
        self._driver_id = driver_id
        self._starts = 1 if alone else starts
        self._alone = alone
        self._clock = clock
        self._known: dict[str, str] = {}
        self._running: dict[str, QueryRecord] = {}
        self._given: dict[str, str | None] = {}
        self._lock = threading.Lock()

    @property
    def job(self) -> str:
        """The file that the queries are from."""
        return self._spec.job

    def learn(self, records: Iterable[QueryRecord]) -> None:
        """Read the names of earlier queries from the store: a checkpoint keeps its name."""
        self._known = {record.name: record.checkpoint for record in records if record.name}

    def records(self) -> tuple[QueryRecord, ...]:
        """The queries that were admitted, each with its newest run."""
        with self._lock:
            return tuple(self._running.values())

    def record_of(self, query_id: str) -> QueryRecord | None:
        with self._lock:
            return self._running.get(query_id)

    def admit(self, query: StartedQuery) -> Admission:
        """Name the query, which is not in the registry before `enter`. Raises JobError for another stream's query."""
        name, only = self._name(query)
        now = self._clock()
        record = QueryRecord(
            stream=self._spec.name,
            name=name,
            checkpoint=query.checkpoint,
            trigger=query.trigger,
            driver_id=self._driver_id,
            query_id=query.query_id,
            run_id=query.run_id,
            first_at=now,
            started_at=now,
        )
        self._given[query.query_id] = query.given
        if only is None:
            return Admission(record)
        named = replace(only, name=self._free_name(self._given.get(only.query_id), only.checkpoint))
        if named.name == name:
            taken = {named.name: named.checkpoint}
            record = replace(record, name=self._free_name(query.given, query.checkpoint, taken))
        return Admission(record, (only, named))

    def enter(self, admission: Admission) -> None:
        """The query runs under its name from now on, and the one that was the only one under its new name."""
        with self._lock:
            for record in (*(admission.renamed or ())[1:], admission.record):
                self._running[record.query_id] = record

    # Names

    def _name(self, query: StartedQuery) -> tuple[str, QueryRecord | None]:
        """(the query's name, the query that loses the stream's name to there being several)."""
        if self._spec.fork is not None and not inside(query.checkpoint, self._spec.checkpoint):
            raise self._wrong_checkpoint(query)  # the last fence: a query that no hook has redirected
        if self._spec.queries and not self._alone:
            return self._declared(query), None
        again = next((record for record in self._running.values() if record.checkpoint == query.checkpoint), None)
        if again is not None:
            return again.name, None
        at_home = same_place(query.checkpoint, self._spec.checkpoint)
        first = not self._running
        if not at_home and (self._alone or (first and self._starts == 1)):
            raise self._wrong_checkpoint(query)
        if first and at_home and (self._starts == 1 or (self._starts is None and not self._known)):
            return "", None
        only = next((record for record in self._running.values() if not record.name), None)
        return self._free_name(query.given, query.checkpoint), only

    def _free_name(self, given: str | None, checkpoint: str, taken: Mapping[str, str] = MappingProxyType({})) -> str:
        earlier_name = next((name for name, place in self._known.items() if same_place(place, checkpoint)), None)
        earlier = {
            # a query whose checkpoint Spark made up never comes back to it
            name: place
            for name, place in self._known.items()
            if not (is_temporary(place) and is_temporary(checkpoint))
        }
        now = {record.name: record.checkpoint for record in self._running.values() if record.name}
        return earlier_name or name_of(given, checkpoint, {**earlier, **now, **taken})

    def _declared(self, query: StartedQuery) -> str:
        name = self._declared_name(query)
        other = next((record for record in self._running.values() if record.name == name), None)
        if other is not None and other.checkpoint != query.checkpoint:
            raise JobError(
                f"two queries are taken for the declared query {name}, on {other.checkpoint} and {query.checkpoint}",
                expected="one query for each name",
                where=self._spec.job,
                next_step="declare the checkpoint of each in `queries`",
            )
        return name

    def _declared_name(self, query: StartedQuery) -> str:
        declared = self._spec.queries
        for name, place in declared.items():
            if place is not None and same_place(query.checkpoint, place):
                return name
        guesses = name_of(query.given, query.checkpoint, {}), name_of(None, query.checkpoint, {})
        declared_name = next((guess for guess in guesses if guess in declared), None)
        if declared_name is None:
            raise JobError(
                f"the script starts a query {query.given or 'without a name'} on the checkpoint {query.checkpoint}",
                expected=f"one of the declared queries: {', '.join(declared)}",
                where=self._spec.job,
                next_step=f"add it to `queries` in {self._spec.file or 'the YAML file of ' + self._spec.name}",
            )
        if declared[declared_name] is not None:
            raise JobError(
                f"the query {declared_name} writes to the checkpoint {query.checkpoint}",
                expected=f"the declared checkpoint, {declared[declared_name]}",
                where=self._spec.job,
                next_step="make the two the same: the lease protects the declared one only",
            )
        return declared_name

    def _wrong_checkpoint(self, query: StartedQuery) -> JobError:
        return JobError(
            f"the job's query writes to the checkpoint {query.checkpoint}",
            expected=f"the declared checkpoint, {self._spec.checkpoint}",
            where=self._spec.job,
            next_step="make the two the same: the lease protects the declared one only",
        )
