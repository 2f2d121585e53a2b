"""Restarts a stream from states of its files, one after the other in one Spark, and verifies each with the record.

All states run at one place, into which the files of each are renamed, so that every path inside of them holds. A state
that has the plan of its batch executes that plan again, and then the next recorded batch: the output has to be the
recorded one. A state without the plan makes its own, as after a real crash: then a second run, without a crash,
executes the same plan on the files before the batch, and the two have to agree.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.formats.layout import COMMITS, OFFSETS
from streamwarden.checkpoint.formats.logs import log_position
from streamwarden.drills.crash_states import Change, CrashState, Ending, Origin, Outcome, files_of, ledger_of, windows
from streamwarden.lifecycle.forks.places import Places
from streamwarden.services.crash_matrix.crash_layout import PARTS, Record
from streamwarden.services.crash_matrix.judge import Judge
from streamwarden.services.forks.files import remove_folder
from streamwarden.services.twins.plan_replay import Laying
from streamwarden.sinks.base import Sink
from streamwarden.stream.spec import StreamSpec

_PLAN: Final = ("sources", "offsets")
"""The parts that hold the plan of a batch."""

_ACTUAL, _TWIN = "actual", "twin"
"""Names under which the judge keeps an output."""


@dataclass
class Execution:
    """Executes states.

    Args:
        spec: the stream at the place where each state runs; places: that place.
        record: of the run without a crash; scratch: a folder for the files of the states, on the same disk.
        judge: reads and compares the outputs.
        start: builds the job at the place, as a starting driver does, and returns a function for one batch: the planned
            one, otherwise a new one. Both raise the job's errors.
    """

    spec: StreamSpec
    places: Places
    record: Record
    scratch: Path
    judge: Judge
    start: Callable[[], Callable[[], None]]

    def __post_init__(self) -> None:
        self._windows = windows(self.record.operations)
        self._expected: set[int] = set()

    def keep_sink(self) -> None:
        """Keep the sink of the run without a crash: the states begin from it."""
        self._sink.keep(self.spec)

    def outcome(self, state: CrashState) -> Outcome:
        """Restart from `state` and verify. The files of a state that did not end right stay in the scratch folder."""
        began = time.monotonic()
        ending, detail = self._ending(state)
        if ending is Ending.RIGHT:
            remove_folder(self.scratch / _folder(state), below=self.scratch)
        return Outcome(state=state, ending=ending, detail=detail, seconds=round(time.monotonic() - began, 3))

    def _ending(self, state: CrashState) -> tuple[Ending, str]:
        with self._placed(state, _folder(state)) as folder:
            try:
                until = self._restart(state)
                commits = self._commits(until)
            except Exception as error:  # any error of Spark or of the job is a loud refusal
                return Ending.REFUSED, _brief(f"{type(error).__name__}: {error}")
            if refused := self.judge.read(_ACTUAL, until):
                return Ending.REFUSED, _brief(refused)
        expected, right = self._expectation(state, folder, until)
        ending, detail = self.judge.compare(expected, _ACTUAL)
        if ending is Ending.RIGHT and commits != right:
            return Ending.DIFFERENT, f"the same rows; commits/{until} is {commits!r}, expected {right!r}"
        return ending, detail

    def _restart(self, state: CrashState) -> int:
        """Execute the batch of the state and, if its plan was there, the next recorded one; returns the newest."""
        position, run_batch = log_position(open_path(self.spec.checkpoint)), self.start()
        if not self._has_plan(state):
            run_batch()
            return self._committed()
        until = min(state.batch + 1, max(self._windows))
        if position.planned != position.committed:
            run_batch()
        while self._committed() < until:
            self._lay_plan(self._committed() + 1)
            run_batch()
        return until

    def _has_plan(self, state: CrashState) -> bool:
        """Whether the state has the whole plan of its batch, or none of it: then the recorded plan serves."""
        begin, _ = self._windows[state.batch]
        begun = range(begin, state.applied)
        return not begun or f"checkpoint/offsets/{state.batch}" in files_of(self.record.operations, state)

    def _lay_plan(self, batch: int) -> None:
        begin, end = self._windows[batch]
        operations = self.record.operations
        plan = {
            operations[index].path: index
            for index in range(begin, end)
            if operations[index].part in _PLAN and operations[index].change is not Change.REMOVED
        }
        self.record.link(plan, Path(self.places.checkpoint).parent)

    def _committed(self) -> int:
        committed = log_position(open_path(self.spec.checkpoint)).committed
        return -1 if committed is None else committed

    def _expectation(self, state: CrashState, folder: Path, until: int) -> tuple[str, str]:
        """The name of the output, and the newest commit, that a run without a crash has after the batch `until`."""
        if self._has_plan(state):
            name = f"expected-{until}"
            if until not in self._expected:
                with self._placed(self._boundary(until + 1), name):
                    self._read(name, until)
                self._expected.add(until)
            commit = self._operation(f"checkpoint/{COMMITS}/{until}")
            return name, (self.record.contents / commit).read_text()
        with self._placed(self._boundary(state.batch), f"twin-{state.number}") as twin:
            laying = Laying(open_path(str(folder / "checkpoint")), self.spec.source.path, self.places)
            run_batch = self.start()
            for batch in range(state.batch, until + 1):
                laying.lay(batch)
                run_batch()
            self._read(_TWIN, until)
            commits = self._commits(until)
        remove_folder(twin, below=self.scratch)
        return _TWIN, commits

    def _boundary(self, batch: int) -> CrashState:
        """The files before `batch`: everything up to the commit of the one before it."""
        applied = self._windows[batch - 1][1] if batch else 0
        return CrashState(number=-1, batch=batch, name="", origin=Origin.KILL, applied=applied)

    def _operation(self, path: str) -> str:
        """The content of the file that the record has under `path`."""
        return next(
            operation.content
            for operation in reversed(self.record.operations)
            if operation.path == path and operation.content
        )

    @contextmanager
    def _placed(self, state: CrashState, name: str) -> Iterator[Path]:
        """The files of `state` at the place where they run; afterwards they are in the folder that is returned."""
        folder, place = self.scratch / name, Path(self.places.checkpoint).parent
        self.record.lay(state, folder)
        for part in PARTS:
            (folder / part).rename(place / part)
        try:
            batch, plan = ledger_of(self.record.operations, state), b""
            if batch is not None:
                plan = (self.record.contents / self._operation(f"checkpoint/{OFFSETS}/{batch}")).read_bytes()
            self._sink.set_back(self.spec, batch, plan)
            yield folder
        finally:
            for part in PARTS:
                (place / part).rename(folder / part)

    @property
    def _sink(self) -> Sink:
        assert isinstance(self.spec.sink, Sink), "it was forked"
        return self.spec.sink

    def _read(self, name: str, until: int) -> None:
        """Let the judge read an output of a run without a crash."""
        if refused := self.judge.read(name, until):
            raise RuntimeError(f"the output of a run without a crash cannot be read: {refused}")

    def _commits(self, until: int) -> str:
        return (Path(self.spec.checkpoint) / COMMITS / str(until)).read_text()


def _brief(text: str) -> str:
    return " ".join(text.split())[:500]


def _folder(state: CrashState) -> str:
    """The folder of a state's files in the scratch folder."""
    return f"state-{state.number}"
