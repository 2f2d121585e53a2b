"""The database or the topic that a fork's sink writes to, as the kind of the sink probes it."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from streamwarden.drills.faults.sink.kill_after_database_commit import ARRIVALS
from streamwarden.drills.faults.sink.sink_failing import FOLDER
from streamwarden.drills.faults.sink.sink_locked import TABLE
from streamwarden.drills.faults.table.other_writer import WRITERS
from streamwarden.drills.ports import Arrivals, HeldTable
from streamwarden.drills.records.types import ForkView
from streamwarden.drills.tables import OtherWriter
from streamwarden.errors import DrillError
from streamwarden.services.drilling.ports import Offer
from streamwarden.sinks.base import Sink


class ForkSink:
    """Implements `SinkArrivals`, `SinkTable`, `SinkFolder` and `OtherWriters`."""

    def listen(self, fork: ForkView) -> AbstractContextManager[Arrivals]:
        return _sink(fork).listen(fork.spec)

    def newest(self, fork: ForkView) -> int | None:
        return _sink(fork).newest(fork.spec)

    def hold(self, fork: ForkView) -> AbstractContextManager[HeldTable]:
        return _sink(fork).hold(fork.spec)

    def of(self, fork: ForkView) -> OtherWriter:
        return _sink(fork).other_writer(fork.spec)

    def block(self, fork: ForkView) -> None:
        """The folder is moved aside, and a file with its name is written."""
        folder = Path(str(fork.spec.sink.path))
        folder.rename(_aside(folder))
        folder.write_text("A drill makes the sink fail: see the run's journal.\n")

    def unblock(self, fork: ForkView) -> bool:
        folder = Path(str(fork.spec.sink.path))
        if not _aside(folder).is_dir():
            return False
        if folder.is_file():
            folder.unlink()
        _aside(folder).rename(folder)
        return True


def _aside(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}-moved-aside")


def _sink(fork: ForkView) -> Sink:
    if not isinstance(fork.spec.sink, Sink):
        raise DrillError(f"{fork.stream} declares no sink", expected="a declared sink", where=f"sink of {fork.origin}")
    return fork.spec.sink


OFFERS: Final = (
    Offer(ARRIVALS, lambda _: ForkSink()),
    Offer(TABLE, lambda _: ForkSink()),
    Offer(FOLDER, lambda _: ForkSink()),
    Offer(WRITERS, lambda _: ForkSink()),
)
