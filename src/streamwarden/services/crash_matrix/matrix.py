"""Runs a crash matrix: a run without a crash, whose changes of files are recorded, and a restart from every state."""

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from streamwarden import disk
from streamwarden.config.stored_spec import spec_from_dict, spec_to_dict
from streamwarden.drills.crash_states import CrashState, Ending, Operation, Outcome, crash_states, windows, with_ledger
from streamwarden.drills.records.codec import decode, encode
from streamwarden.errors import ConfigError, VerificationError
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.forks.places import Places
from streamwarden.lifecycle.settings import MAINTENANCE, RETAIN
from streamwarden.lint.job_reader import read_job
from streamwarden.services.crash_matrix.crash_layout import AROUND, BATCHES, OUTCOMES, PARTS, TASK
from streamwarden.services.crash_matrix.recording import Recording
from streamwarden.services.fleet.launching.one_off_spark import here, run_program
from streamwarden.services.forks.files import remove_folder
from streamwarden.services.forks.forks import drop_scratch, fork
from streamwarden.services.forks.scripts import is_script, require_script_fork, without_places
from streamwarden.services.forks.spec import forked_spec
from streamwarden.services.forks.working_folder import in_working_folder
from streamwarden.sinks import KINDS
from streamwarden.sinks.base import Sink
from streamwarden.sources.base import StoredSource
from streamwarden.stream.spec import StreamSpec
from streamwarden.units import Seconds

WITHIN: Final = 1800.0
"""Seconds for each of the two programs."""

_SOON: Final = {RETAIN: "100000", MAINTENANCE: "1s"}
"""All logs are kept, and snapshots of the state are uploaded as soon as they are due, so that a run of some seconds has
what a run of hours has."""

_LATER: Final[Mapping[str, str]] = {MAINTENANCE: "1h"}
"""During the restarts nothing is uploaded in the background: a late upload of one state would reach the files of the
next one."""

_RUN, _CONTENTS, _CLEAN, _RESTARTS = "run", "contents", "clean", "restarts"
_RECORD: Final = "record.json"
_PROGRAM: Final = "crash_states"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """A run without a crash, from which the states are made.

    Args:
        folder: holds all of it; spec: the fork that ran.
        around: the batches around which the states lie.
    """

    folder: Path
    spec: StreamSpec
    operations: tuple[Operation, ...]
    around: tuple[int, ...]

    @property
    def states(self) -> list[CrashState]:
        return crash_states(self.operations, self.around)


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """The restarts from the states of a record, and how many seconds they took, with the start of Spark."""

    stream: str
    folder: Path
    operations: int
    outcomes: tuple[Outcome, ...]
    seconds: float

    @property
    def findings(self) -> tuple[Outcome, ...]:
        """The states whose restart gave another output, which nothing reported."""
        return tuple(outcome for outcome in self.outcomes if outcome.ending is Ending.DIFFERENT)


def record(origin: StreamSpec, *, into: Path, around: Sequence[int] = AROUND, within: Seconds = WITHIN) -> RunRecord:
    """Run a fork of `origin` in `BATCHES` batches and record every change of its files.

    Args:
        into: a new folder.
        within: seconds for the run, with the start of Spark.

    Raises:
        CheckpointError: the stream cannot be forked, or the record is not whole.
        ConfigError: the states of such a stream cannot be recreated.
        VerificationError: the run did not end in time, or ended with an error.
    """
    run = into / _RUN
    places = _places(into)
    made = _script(origin, places) if is_script(origin) else _forked(origin, places, run)
    spec = in_working_folder(made, origin, into)
    for part in PARTS:
        (run / part).mkdir(parents=True, exist_ok=True)
    with Recording(run, into / _CONTENTS) as recording:
        _program(spec, into, _CLEAN, (), (), within)
    operations = recording.operations if spec.sink.SERVICE is None else with_ledger(recording.operations)
    _require_batches(operations, around, origin)
    for part in PARTS:
        (run / part).rename(into / _CLEAN / part)
    files.write_spec(into, spec_to_dict(spec))
    files.write_document(into / _RECORD, {"operations": encode(operations), "around": list(around)})
    return RunRecord(folder=into, spec=spec, operations=operations, around=tuple(around))


def load(folder: Path) -> RunRecord:
    """The record that `record` left in `folder`. Raises ConfigError if there is none."""
    document, spec = files.read_document(folder / _RECORD), files.read_spec(folder)
    if document is None or spec is None:
        raise ConfigError(
            f"{folder} has no record of a crash matrix",
            expected="a folder that `streamwarden crash-matrix` kept",
            where=str(folder),
            next_step="make one with `streamwarden crash-matrix STREAM --keep`",
        )
    operations = tuple(decode(Operation, operation) for operation in document["operations"])
    return RunRecord(folder=folder, spec=spec_from_dict(spec), operations=operations, around=tuple(document["around"]))


def restart(recorded: RunRecord, states: Sequence[CrashState], *, within: Seconds = WITHIN) -> Matrix:
    """Restart the fork from `states`, and verify each output.

    Raises VerificationError if Spark did not end in time, or ended with an error.
    """
    remove_folder(recorded.folder / _RESTARTS, below=recorded.folder)
    began = time.monotonic()
    forgetful = recorded.spec.sink.FORGETFUL if isinstance(recorded.spec.sink, Sink) else {}
    _program(
        _with(recorded.spec, {**_LATER, **forgetful}), recorded.folder, _RESTARTS, recorded.operations, states, within
    )
    outcomes = files.read_lines(recorded.folder / _RESTARTS / OUTCOMES)
    return Matrix(
        stream=recorded.spec.name,
        folder=recorded.folder,
        operations=len(recorded.operations),
        outcomes=tuple(decode(Outcome, outcome) for outcome in outcomes),
        seconds=round(time.monotonic() - began, 1),
    )


def discard(recorded: RunRecord) -> None:
    """Remove a record with all that belongs to it, also in a database. Raises CheckpointError if that refuses."""
    drop_scratch(recorded.spec)
    remove_folder(recorded.folder, below=recorded.folder.parent)


def _forked(origin: StreamSpec, places: Places, run: Path) -> StreamSpec:
    """A fork of a job with `build`, in `BATCHES` batches."""
    _require_recordable(origin, forked_spec(origin, places), places)
    return _bounded(origin, fork(origin, into=run, rewind="all").spec, run)


def _script(origin: StreamSpec, places: Places) -> StreamSpec:
    """A script whose one query reads the stream's own input and writes its rows into Parquet files."""
    require_script_fork(origin)
    queries = read_job(origin.job, Path(origin.job).read_text(encoding="utf-8")).queries
    if queries not in (1, None):
        raise ConfigError(
            f"the script starts {queries} queries",
            expected="one query: the states of each would have to be combined with those of the others",
            where=origin.job,
            next_step="drill this script: `kill_driver` kills it in each phase of a batch, or at `after_handover`",
        )
    sink = KINDS["parquet"](path=places.output)  # type: ignore[call-arg]  # each kind has its own keys
    spec = replace(without_places(origin), checkpoint=places.checkpoint, sink=sink, queries={})
    return _with(spec, _SOON)


def _require_batches(operations: Sequence[Operation], around: Sequence[int], origin: StreamSpec) -> None:
    """Raises ConfigError for a run with too few batches for states around these."""
    ran = len(windows(operations))
    if ran <= max(around):
        raise ConfigError(
            f"the input of {origin.name} makes {ran} batches",
            expected=f"at least {max(around) + 1}",
            where=origin.file or origin.name,
            next_step="add input in more files, or name earlier batches (`--around`)",
        )


def _places(into: Path) -> Places:
    return Places.under(str((into / _RUN).absolute()))


def _program(
    spec: StreamSpec,
    into: Path,
    name: str,
    operations: Sequence[Operation],
    states: Sequence[CrashState],
    within: Seconds,
) -> None:
    """Run the program in the folder `name`."""
    folder = into / name
    disk.private_folder(folder, below=into)
    task: dict[str, Any] = {
        "python": sys.executable,
        "places": asdict(_places(into)),
        "contents": str((into / _CONTENTS).absolute()),
        "operations": encode(operations),
        "states": encode(states),
    }
    files.write_text(folder / TASK, json.dumps(task))
    log = folder / f"{_PROGRAM}.log"
    try:
        status = run_program(_PROGRAM, here(spec), folder, reads=spec, within=within)
    except subprocess.TimeoutExpired as error:
        raise _none(spec, f"Spark had not ended after {within:.0f} s", log) from error
    if status != 0:
        raise _none(spec, f"Spark ended with status {status}", log)


def _bounded(origin: StreamSpec, forked: StreamSpec, run: Path) -> StreamSpec:
    """The fork in `BATCHES` batches, as large as the stream's if it limits them. Removes links to other input."""
    assert isinstance(forked.source, StoredSource), "it is a fork"
    links = [path for path in (run / "input").rglob("*") if path.is_file()]
    each_batch = len(links) // BATCHES
    limit = max(1, min(origin.source.limit or each_batch, each_batch))
    for path in sorted(links, key=lambda link: link.stat().st_mtime)[BATCHES * limit :]:
        path.unlink()
    return _with(replace(forked, source=forked.source.limited_to(limit)), _SOON)


def _with(spec: StreamSpec, conf: Mapping[str, str]) -> StreamSpec:
    return replace(spec, spark=replace(spec.spark, conf={**spec.spark.conf, **conf}))


def _require_recordable(origin: StreamSpec, spec: StreamSpec, places: Places) -> None:
    """Raises ConfigError for a fork whose states cannot be recreated."""
    sink = spec.sink
    if spec.checkpoint == places.checkpoint and spec.source.path and isinstance(sink, Sink) and sink.can_be_set_back:
        return
    raise ConfigError(
        f"the stream reads a source of the kind {spec.source.kind} and writes a sink of the kind {sink.kind}",
        expected="a local file source, and a file sink or append-only table: only these can be reset to the state "
        "a crash leaves",
        where=origin.file or origin.name,
        next_step="drill this stream: the drill `kill_driver` kills it at a `moment` between two writes",
    )


def _none(spec: StreamSpec, observed: str, log: Path) -> VerificationError:
    return VerificationError(
        f"the crash matrix of {spec.name} was not completed: {observed}",
        expected="a job that runs on a fork",
        where=str(log),
        next_step="read the log",
    )
