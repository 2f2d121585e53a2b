"""Judges a fork by health checks, by its output against the oracle, and by Great Expectations."""

import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from streamwarden.adapters.store import Store
from streamwarden.checkpoint.topics import TopicRange
from streamwarden.drills.records.sections import VerificationSpec
from streamwarden.drills.records.twin import TwinReport
from streamwarden.drills.records.types import Copies, ForkView, Judgement
from streamwarden.errors import ConfigError, VerificationError
from streamwarden.health.verdict import Verdict
from streamwarden.lifecycle.forks.started import fork_queries
from streamwarden.services.drilling.archive import DrillArchive
from streamwarden.services.fleet.recorded_starts import starts_of
from streamwarden.services.monitoring.health_monitor import HealthMonitor
from streamwarden.services.twins.comparison import Witness
from streamwarden.services.twins.making import TWIN
from streamwarden.services.twins.scripts import ScriptWitness
from streamwarden.services.verifying.verification import verify, written_places
from streamwarden.sources.base import Source
from streamwarden.stream.spec import StreamSpec
from streamwarden.units import Seconds
from streamwarden.verification.comparing.balance import Audit
from streamwarden.verification.comparing.starts import Start
from streamwarden.verification.reconciliation import CHANGED_BY_COPIES, Reconciliation


class ForkHealth:
    """Implements `drills.ports.Health`: checks of every stream, on the fork. Stores nothing and notifies no one."""

    def __init__(self, health_monitor: HealthMonitor) -> None:
        self._health_monitor = health_monitor

    def evaluate(self, fork: ForkView, checks: Collection[str]) -> Sequence[Verdict]:
        return self._health_monitor.judge(fork.spec, time.time(), checks)


class ForkVerifier:
    """Implements `drills.ports.Verifier`: the job's own oracle over the whole input, which a fork has linked, and the
    twin.

    Args:
        stream: the production stream's spec by name; raises ConfigError if there is none.
    """

    def __init__(self, store: Store, stream: Callable[[str], StreamSpec], archive: DrillArchive) -> None:
        self._store = store
        self._stream = stream
        self._archive = archive

    def reconcile(
        self,
        fork: ForkView,
        *,
        lost: Sequence[TopicRange] = (),
        copies: Copies | None = None,
        clock_steps: Sequence[Seconds] = (),
    ) -> Reconciliation:
        _import_beside()
        spec = fork.spec
        own = 0 if fork.batch is None else fork.batch + 1
        outcome = verify(
            spec,
            first=_first_judged(fork),
            lost=lost,
            copied=fork.copied,
            starts=self._starts(fork, clock_steps),
            bounded_from=own if fork.bounded else None,
            owed=spec.source.owed(fork.ranges) if fork.bounded and isinstance(spec.source, Source) else 0,
            closed=self._closed(fork),
            copies={file.rpartition("/")[2] for file in copies.files} if copies is not None else (),
        )
        kept = _kept_copies(outcome.notes) if copies is not None and copies.deduplicated else []
        return replace(outcome, problems=(*outcome.problems, *kept, *_of_output(outcome.notes, fork)))

    def compare_with_twin(
        self,
        run_id: str,
        fork: ForkView,
        verification: VerificationSpec,
        *,
        within: Seconds,
        clock_steps: Sequence[Seconds] = (),
    ) -> TwinReport:
        _import_beside()
        home = self._archive.folder(run_id) / TWIN
        if fork.spec.fork is not None:
            starts = {query.name: self._starts(fork, clock_steps, query.name) for query in fork_queries(fork.spec)}
            return ScriptWitness(fork, home, verification, starts, within).report()
        witness = Witness(
            fork=fork,
            home=home,
            verification=verification,
            starts=self._starts(fork, clock_steps),
            first=_first_judged(fork),
            within=within,
            stream=self._origin(fork),
        )
        return witness.report(lambda output: _of_output(output.notes, fork))

    def _origin(self, fork: ForkView) -> StreamSpec | None:
        with contextlib.suppress(ConfigError):  # the stream's file may be gone by now
            return self._stream(fork.origin)
        return None

    def _closed(self, fork: ForkView) -> list[str]:
        """What no oracle may read: every drill's folder, and what the stream itself writes."""
        places = [str(self._archive.root.absolute())]
        origin = self._origin(fork)
        return places if origin is None else [*places, *written_places(origin)]

    def _starts(self, fork: ForkView, clock_steps: Sequence[Seconds], query: str | None = None) -> tuple[Start, ...]:
        """The starts of the fork's own drivers, and those of its origin's before it was forked.

        Args:
            query: of a script, which has a checkpoint of its own.
        """
        starts = starts_of(self._store, fork.stream, fork.checkpoint, query)
        own = tuple(replace(start, clock_steps=tuple(clock_steps)) for start in starts)
        if fork.batch is None or not own:
            return own
        with contextlib.suppress(ConfigError):  # the stream's file may be gone by now
            before = starts_of(self._store, fork.origin, self._stream(fork.origin).checkpoint)
            return (*(start for start in before if start.at < own[0].at), *own)
        return own


def _first_judged(fork: ForkView) -> int:
    """The first batch whose output is judged: 0 if the fork took over its origin's output."""
    return fork.batch + 1 if fork.batch is not None and not fork.spec.sink.INHERITED else 0


def _of_output(notes: Mapping[str, object], fork: ForkView) -> list[str]:
    return [*of_others(notes), *uncommitted(notes, fork)]


def _kept_copies(notes: Mapping[str, object]) -> list[str]:
    """Rows that a copy of an input file has changed, as a problem, if the job should drop repeated rows."""
    changed = notes.get(CHANGED_BY_COPIES)
    return [f"{changed:,} rows differ from those of the input without the copy of a file"] if changed else []


def of_others(notes: Mapping[str, object]) -> list[str]:
    """Records in the fork's topic that carry another query's name, as a problem: only the fork writes there, and a
    reader of the stream's own topic skips such records."""
    count = notes.get("records_of_others", 0)
    said = f"{count:,} records in the fork's topic are not from its query: no other query writes there"
    return [said] if count else []


def uncommitted(notes: Mapping[str, object], fork: ForkView) -> list[str]:
    """Records of batches that the fork has not committed, as a problem, if it ended by itself: then each batch that
    wrote records is committed. A fork that was asked to stop may have been in a batch."""
    count = notes.get("uncommitted_records") if fork.bounded else None
    return [f"{count:,} records in the fork's topic are from batches that it never committed"] if count else []


class ExpectationsJudge:
    """Implements `drills.ports.Judge` with Great Expectations, imported when it is needed."""

    def judge(self, reconciliation: Reconciliation, min_records: int) -> Judgement:
        """Raises VerificationError if the judge cannot reach a verdict or contradicts the reconciliation."""
        with _imports():
            from streamwarden.services.verifying.expectations import judge

            return judge(reconciliation, min_records)

    def judge_audit(self, audit: Audit, min_records: int) -> Judgement:
        """Raises VerificationError if the judge cannot reach a verdict or contradicts the audit."""
        with _imports():
            from streamwarden.services.verifying.expectations import judge_audit

            return judge_audit(audit, min_records)


def _import_beside() -> None:
    """The judge is needed when the outputs are compared; until then it is imported beside."""
    from streamwarden.services.verifying.expectations import import_beside

    import_beside()


@contextlib.contextmanager
def _imports() -> Iterator[None]:
    """Turns an import that ends the program into a VerificationError."""
    try:
        yield
    except SystemExit as end:
        # PySpark, which Great Expectations imports, mistakes a program without a file (`python -c`) for a doctest
        # run and ends it with status 0 if a package of Spark Connect is missing. That is not a success.
        raise VerificationError(
            f"an import ended the program with status {end.code}",
            expected="Great Expectations to import",
            where="Great Expectations",
            next_step="run the drill from a file or from `streamwarden drill run`, not with `python -c`",
        ) from end
