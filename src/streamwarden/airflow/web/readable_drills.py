"""Drills that one user may read: the pages and the API both ask here."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from streamwarden.airflow.links import drill_run_id
from streamwarden.airflow.web.access import allowed_of
from streamwarden.airflow.web.row_cache import paused_dags
from streamwarden.airflow.web.shared_workspace import catalogs, opened
from streamwarden.drills.records.journal import DrillRun
from streamwarden.drills.reporting.resilience import Resilience
from streamwarden.drills.spec import DrillSpec
from streamwarden.drills.state import RunState
from streamwarden.errors import DrillError
from streamwarden.health.check_relations import DRILL
from streamwarden.schedules import next_due
from streamwarden.services.incidents.drill_incidents import longest_run, overdue_now
from streamwarden.services.monitoring.resilience import resilience_of
from streamwarden.services.workspace import Workspace

AGAIN: Final = 15.0
"""Seconds for which the matrix is shown without reading it again: it takes the trials of thousands of runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningDrill:
    """A run that has not ended.

    Args:
        state: None: another version began it, and this one cannot read it.
        late: it has lasted longer than its drill may: it hangs, or it was abandoned.
    """

    run: DrillRun
    state: RunState | None
    late: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredDrill:
    """A drill of the project.

    Args:
        ended: its newest run that has ended: it has a verdict, also while another one runs.
        running: its run that has not ended.
        due: when it had to begin and did not, Unix seconds; None: it is not overdue.
        next: when its schedule is due next, Unix seconds; None: nothing begins it by itself.
        paused: whether its DAG is paused; None: Airflow has not read it yet.
        may_run: the user may trigger it.
    """

    spec: DrillSpec
    ended: DrillRun | None
    running: DrillRun | None
    due: float | None
    next: float | None
    paused: bool | None
    may_run: bool

    @property
    def lasted(self) -> float | None:
        """Seconds of its newest run that has ended."""
        run = self.ended
        return None if run is None or run.ended_at is None else run.ended_at - run.started_at


def readable_drills(names: Sequence[str] | set[str], user: Any) -> frozenset[str]:
    """Those of the drills whose runs `user` may read."""
    ids = allowed_of({f"{DRILL}{name}" for name in names}, user)
    return frozenset(name for name in names if f"{DRILL}{name}" in ids)


def drilled(space: Workspace, user: Any) -> list[tuple[str, str]]:
    """The name and the stream of each drill that ever ran and that `user` may read. Raises StoreError."""
    pairs = space.store.journals.drilled()
    readable = readable_drills({drill for drill, _ in pairs}, user)
    return [pair for pair in pairs if pair[0] in readable]


def of_dag_run(space: Workspace, drills: Iterable[str], dag_run_id: str) -> Sequence[DrillRun]:
    """The run of one of `drills` that a run of its DAG is; none before it has begun. Raises StoreError."""
    runs = (space.store.journals.get(drill_run_id(drill, dag_run_id)) for drill in drills)
    return [run for run in runs if run is not None]


def running(space: Workspace, user: Any, now: float) -> list[RunningDrill]:
    """The running ones that `user` may read, newest first. Raises StoreError."""
    runs = space.store.journals.running()
    readable = readable_drills({run.drill for run in runs}, user)
    return [_running(run, now) for run in runs if run.drill in readable]


def _running(run: DrillRun, now: float) -> RunningDrill:
    try:
        state = RunState.of(run)
    except DrillError:
        return RunningDrill(run=run, state=None, late=False)
    return RunningDrill(run=run, state=state, late=now - run.started_at > longest_run(state.drill))


def configured(space: Workspace, user: Any, now: float, stream: str | None = None) -> list[ConfiguredDrill]:
    """The drills of the project, or of one stream, that `user` may read, by name. Raises StreamwardenError."""
    found = catalogs().newest(space).drills
    specs = {name: spec for name, spec in found.items() if stream in (None, spec.stream)}
    readable = readable_drills(set(specs), user)
    runnable = allowed_of({f"{DRILL}{name}" for name in readable}, user, "POST")
    paused = paused_dags(DRILL)
    newest = space.store.journals.newest_of_drills()
    ended = space.store.journals.newest_of_drills(ended=True)
    due = _due({name: specs[name] for name in readable}, newest, space, now)
    return [
        ConfiguredDrill(
            spec=specs[name],
            ended=ended.get(name),
            running=run if (run := newest.get(name)) is not None and run.ended_at is None else None,
            due=due.get(name),
            next=None if paused.get(f"{DRILL}{name}") else _next(specs[name], now),
            paused=paused.get(f"{DRILL}{name}"),
            may_run=f"{DRILL}{name}" in runnable,
        )
        for name in sorted(readable)
    ]


def _next(spec: DrillSpec, now: float) -> float | None:
    return next_due(spec.schedule, now) if spec.schedule else None


def _due(
    specs: Mapping[str, DrillSpec], newest: Mapping[str, DrillRun], space: Workspace, now: float
) -> dict[str, float]:
    missed = overdue_now(space.store, specs, newest, now)
    return {name: due for dues in missed.values() for name, due in dues.items()}


class Matrix:
    """The rows of the resilience matrix, of every drill. Threads may share it.

    Args:
        read: reads the rows now.
    """

    def __init__(self, read: Callable[[float], Sequence[Resilience]], clock: Callable[[], float] = time.time) -> None:
        self._read = read
        self._clock = clock
        self._lock = threading.Lock()
        self._read_at = 0.0
        self._rows: Sequence[Resilience] = ()

    def rows(self) -> tuple[float, Sequence[Resilience]]:
        """Time at which the rows were read, and the rows. Raises StreamwardenError."""
        with self._lock:
            now = self._clock()
            if now - self._read_at > AGAIN:
                self._rows, self._read_at = self._read(now), now
            return self._read_at, self._rows


@cache
def matrix() -> Matrix:
    """The matrix of this process."""
    space = opened()
    return Matrix(lambda now: resilience_of(space.store, catalogs().newest(space).drills, None, now))


def resilience_for(user: Any, stream: str | None = None) -> tuple[float, list[Resilience]]:
    """Time at which the rows were read, and the rows that `user` may read, without those of hidden drills.

    Raises StreamwardenError.
    """
    at, rows = matrix().rows()
    names = {name for row in rows for name in (*row.drills, *(trial.drill for trial in row.trials))}
    readable = readable_drills(names, user)
    narrowed = [row.of(readable) for row in rows if stream in (None, row.stream)]
    return at, [row for row in narrowed if row is not None]
