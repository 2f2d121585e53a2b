"""Runs a new version beside the old one, on a fork that executes each batch which the stream commits.

Number, offsets, time and watermark of each batch are those of the stream, so that both versions stand at the same batch
whenever they have executed as many. Two things follow: their rows can be compared batch by batch while the stream runs,
and the fork's checkpoint can take the place of the stream's one after any batch (`taking_over`). The record of batches
that the stream's output has stays right, whatever the kind of the sink.
"""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final

from streamwarden import disk
from streamwarden.adapters.storage.files import checkpoint_of
from streamwarden.checkpoint.formats.layout import Damaged
from streamwarden.checkpoint.formats.logs import log_position, offsets
from streamwarden.errors import CheckpointError, StreamwardenError
from streamwarden.lifecycle.driver_folder import write_document
from streamwarden.lifecycle.forks.places import Places
from streamwarden.lifecycle.upgrades.preflight import OutputDifference
from streamwarden.lifecycle.upgrades.report import beside_line
from streamwarden.redaction import redacted
from streamwarden.services.exchanges.refusals import require_on_disk
from streamwarden.services.forks.files import remove_folder
from streamwarden.services.forks.forks import drop_output, fork
from streamwarden.services.forks.spec import forked_spec, run_name
from streamwarden.services.forks.working_folder import in_working_folder
from streamwarden.services.twins import making
from streamwarden.services.twins.keys import find_key
from streamwarden.services.twins.running import LOG, PLAN, UPTO, Execution, Twin, Unexecuted, attempt, end_left
from streamwarden.services.twins.third_witness import NotComparable
from streamwarden.services.upgrades.differences import difference, written
from streamwarden.services.upgrades.journals import BESIDE
from streamwarden.services.upgrades.preflight import of_version
from streamwarden.services.upgrades.proposal import Proposal
from streamwarden.stream.spec import OutputMode, StreamSpec
from streamwarden.units import Seconds
from streamwarden.verification.comparing.balance import Range

NEAR: Final = 2
"""Batches behind the stream at which the new version has caught up: the stream stands still while they are executed."""

PATIENCE: Final = 600.0
"""Seconds beyond those that were asked for in which it has to catch up, and for its last batches."""

_COMPARED_EVERY: Final = 30.0
"""Seconds between two comparisons: a batch is compared while its data files are still listed."""

_POLL: Final = 1.0


@dataclass
class Beside:
    """The new version, which follows the stream.

    Args:
        compared: up to which batch the outputs were compared.
        left_out: columns in which two runs of the old version differ. accepted: a person has accepted each difference.
    """

    stream: StreamSpec
    twin: Twin
    compared: int
    left_out: tuple[str, ...]
    accepted: bool
    running: "Future[Execution | Unexecuted]"
    evidence: Path
    say: Callable[[str], None]
    found: OutputDifference = field(default_factory=lambda: OutputDifference(old=0, new=0))
    _began: int = field(init=False)
    """The batch that the fork was made at."""

    def __post_init__(self) -> None:
        self._began = self.compared

    def follow(self, seconds: Seconds) -> OutputDifference:
        """Let it follow the stream for so long, and until it is near; ends with the first difference if none is
        accepted. Raises CheckpointError if it fails, or is too slow."""
        began = at = time.monotonic()
        while True:
            self._require_running()
            lag, now = self._lag(), time.monotonic()
            ends = now > began + seconds and lag <= NEAR
            if ends or now > at + _COMPARED_EVERY:
                at = now
                if self.stream.sink.mode is OutputMode.APPEND:  # otherwise later batches replace rows
                    self._compare(lag)
                if ends or (self.found.differs and not self.accepted):
                    return self._of_some_batch()
            if now > began + seconds + PATIENCE:
                raise _failed(self.twin, f"it is {lag} batches behind the stream", "a version that catches up")
            time.sleep(_POLL)

    def finish(self, batch: int) -> str:
        """Execute the batches up to this one, the last of the old version; returns why the new version cannot take
        over, empty if it can. Raises CheckpointError if it fails."""
        self._end_after(batch)
        wait_for([self.running], PATIENCE)
        self._require_executed(batch)
        if offsets(checkpoint_of(self.stream), batch) != offsets(checkpoint_of(self.twin.spec), batch):
            return f"the stream was put back meanwhile: its batch {batch} is another one"
        self._compare(0)
        return "" if self.accepted or not self.found.differs else "the output of its last batches differs"

    def end(self) -> None:
        """End its process. Raises VerificationError if it does not end."""
        if not self.running.done():
            self._end_after(-1)
            end_left(self.twin.folder)

    def _end_after(self, batch: int) -> None:
        write_document(self.twin.folder / UPTO, {"batch": batch})

    def _lag(self) -> int:
        there, here = (log_position(checkpoint_of(spec)).committed for spec in (self.stream, self.twin.spec))
        return (there or 0) - (here or 0)

    def _require_running(self) -> None:
        if self.running.done():
            done = self.running.result()
            raise _failed(self.twin, done.error if isinstance(done, Unexecuted) else "it ended", "batches that it runs")

    def _require_executed(self, batch: int) -> None:
        done = self.running.result() if self.running.done() else None
        if not isinstance(done, Execution):
            said = done.error if isinstance(done, Unexecuted) else f"batch {batch} took longer than {PATIENCE:.0f} s"
            raise _failed(self.twin, said, "the last batches of the old version, executed")

    def _compare(self, lag: int) -> None:
        """The batches that both have committed and that were not compared yet."""
        upto = log_position(checkpoint_of(self.twin.spec)).committed or 0
        if upto <= self.compared:
            return
        batches = Range(after=self.compared, upto=upto)
        self.compared = upto
        self.found = self.found.followed_by(self._difference(batches))
        disk.replace(self.evidence, json.dumps(redacted(asdict(self.found)), indent=1), mode=disk.PRIVATE)
        self.say(beside_line(self.found, upto, lag))

    def _difference(self, batches: Range) -> OutputDifference:
        try:
            old, new = written(self.stream, batches), written(self.twin.spec, batches)
            plan = (self.twin.folder / PLAN).read_text(encoding="utf-8")
            return difference(old, new, find_key((), self.stream.sink.key, plan, old), self.left_out)
        except (NotComparable, Damaged, OSError) as error:
            return OutputDifference(old=0, new=0, unproven=f"{batches}: {error}")
        except StreamwardenError as error:
            return OutputDifference(old=0, new=0, unproven=f"{batches}: {error.observed}")

    def _of_some_batch(self) -> OutputDifference:
        """In mode append, that no batch was compared is no proof of anything."""
        if self.stream.sink.mode is OutputMode.APPEND and self.compared == self._began:
            return replace(self.found, unproven="the stream has committed no batch meanwhile")
        return self.found


@contextmanager
def beside(
    proposal: Proposal,
    folder: Path,
    seconds: Seconds,
    say: Callable[[str], None],
    *,
    left_out: tuple[str, ...],
    accepted: bool,
) -> Iterator[Beside]:
    """The new version on a fork of the stream, which runs as long as this context.

    Args:
        folder: of the upgrade.
        seconds: for which it is going to follow.
        left_out, accepted: see `Beside`.

    Raises CheckpointError for a checkpoint that nothing can take the place of, and what a fork raises.
    """
    spec, into = proposal.before, folder / BESIDE
    require_on_disk(spec)
    made = fork(spec, into=into / making.FORK)
    assert made.batch is not None  # it goes on from the stream's state
    named = in_working_folder(replace(made.spec, name=run_name(spec.name, str(into))), spec, into)
    places = Places.under(str((into / making.FORK).absolute()))
    program = into / making.FORK / making.PROGRAM
    twin = Twin(spec=of_version(named, proposal.after), places=places, run=spec, folder=program)
    disk.private_folder(program, below=program.parent)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(attempt, twin, [made.batch + 1], within=seconds + 3 * PATIENCE, follows=True)
        evidence = folder / f"{BESIDE}.json"
        version = Beside(spec, twin, made.batch, left_out, accepted, running, evidence, say)
        try:
            yield version
        finally:
            version.end()


def clear(spec: StreamSpec, folder: Path) -> None:
    """Remove the fork of an upgrade that has ended, except its log; nothing if there is none.

    Raises CheckpointError if the database or the broker refuses.
    """
    into = folder / BESIDE
    program = into / making.FORK / making.PROGRAM
    if not into.exists():
        return
    end_left(program)
    drop_output(forked_spec(spec, Places.under(str((into / making.FORK).absolute()))))
    if (program / LOG).exists():
        (program / LOG).replace(folder / f"{BESIDE}.log")
    remove_folder(into, below=folder)


def _failed(twin: Twin, observed: str, expected: str) -> CheckpointError:
    return CheckpointError(
        f"the new version cannot go on beside the old one: {observed}",
        expected=expected,
        where=str(twin.folder / LOG),
        next_step="read the log, correct the new version, then try again; or upgrade without `--beside`",
    )
