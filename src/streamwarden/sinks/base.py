"""Base classes of the kinds of sink; `sinks.KINDS` lists the kinds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

from streamwarden.checkpoint.filesystem import Location
from streamwarden.errors import CheckpointError, DrillError, JobError
from streamwarden.health.window import TableShape
from streamwarden.lifecycle.exchanges.exchange import Exchange, OutputPlan
from streamwarden.lifecycle.forks.places import Places
from streamwarden.lifecycle.forks.plan import CopyStep
from streamwarden.lifecycle.launch_check import OutputEnd
from streamwarden.problems import Problem, show
from streamwarden.sinks.output import Output, WrittenFiles
from streamwarden.stream.spec import OutputMode, SinkSpec, StreamSpec
from streamwarden.verification.comparing.balance import Range

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

    from streamwarden.drills.ports import Arrivals, HeldTable
    from streamwarden.drills.tables import OtherWriter

WRITTEN_BY: Final = "__written_by"
"""Of a row that an audit reads from a service: the batch that wrote it."""


class BatchWriter(Protocol):
    """Takes a stream's batches from foreachBatch to where Spark has no streaming sink that knows them."""

    def open(self, schema: StructType) -> None:
        """Check that the sink is there and takes such rows, before the query starts."""

    def __call__(self, frame: DataFrame, batch_id: int) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink(SinkSpec, ABC):
    """A sink whose declaration describes the output.

    Each method gets the spec of the stream (or of the fork) whose sink this is: it names the checkpoint and the object
    store, and errors name the stream.
    """

    DECLARED: ClassVar[bool] = True

    @abstractmethod
    def problems(self) -> Iterable[Problem]:
        """Problems of the declaration, beyond the types of its keys."""

    def located(self, locate: Callable[[str], str]) -> Sink:
        """The sink with its paths resolved by `locate`."""
        return self

    # Written by Spark.

    def batch_writer(self, spec: StreamSpec, token: int, ending: Callable[[], bool]) -> BatchWriter | None:
        """The writer of the stream's batches; None if Spark writes by itself (see `attached`).

        Args:
            token: fencing token of the driver's lease.
            ending: whether the driver has to end (a stop, a lost lease).
        """
        return None

    def attached(self, frame: DataFrame, spec: StreamSpec) -> DataStreamWriter:
        """Spark's own writer of the streaming `frame` into the sink, for a stream without a batch writer. Raises
        JobError if the sink's batches have a writer in each mode, as by default."""
        raise JobError(
            f"a sink of the kind {self.kind} has no streaming writer of Spark",
            expected="the batches through `batch_writer`",
            where=spec.job,
            next_step="start the query with the writer of its sink",
        )

    # Compared before a launch.

    def end(
        self, spec: StreamSpec, queries: Sequence[str], environ: Mapping[str, str], since: float
    ) -> OutputEnd | None:
        """The newest batch in the output; None if it has none, or the sink does not record batches.

        Args:
            queries: ids of the queries whose batches count, where many queries may write to one place.
            environ: has the variables of the sink's connection.
            since: when the stream last began anew, Unix seconds: what a topic has from before does not count.

        Raises StreamwardenError or OSError if it cannot be read.
        """
        return None

    def clear_after(self, spec: StreamSpec, batch: int, at: float) -> str:
        """Take the record of the batches after `batch` out of the output, because the query is to write them again.

        Args:
            at: names what was taken out, Unix seconds.

        Returns what was done, empty if there was nothing to do. Raises CheckpointError if it would lose more.
        """
        return ""

    # Probed by the health monitor.

    def shape(self, spec: StreamSpec) -> TableShape | None:
        """The files of a table; None: the sink is no table of files, or no batch has made it yet.

        Raises StreamwardenError or OSError if it cannot be read.
        """
        return None

    # Watched by drills.

    def listed_at(self, spec: StreamSpec, batch: int) -> float | None:
        """When the batch was entered in the sink's `LOG`, Unix seconds; None: it is not there. Raises OSError."""
        return None

    def newest_listed(self, spec: StreamSpec) -> int | None:
        """The newest batch of the query in the sink's `LOG`, if Spark does not execute a batch again that is there;
        None: there is none, or each batch is executed. Raises CheckpointError, OSError."""
        return None

    # Forked.

    @abstractmethod
    def forked(self, places: Places) -> Sink:
        """The sink as a fork writes it."""

    def make_empty(self, origin: StreamSpec, forked: StreamSpec) -> None:
        """Make the empty output of a fork of `origin`; a folder is made by its first writer.

        Raises CheckpointError if the service does not allow it.
        """

    def copy(
        self, origin: StreamSpec, forked: StreamSpec, *, rewind: int, query_id: str, upto: int | None = None
    ) -> int | None:
        """Make the output of a fork that begins `rewind` batches before the newest one of its origin.

        Args:
            query_id: the fork's.
            upto: the batch that counts as the newest: that of a savepoint; None: the newest in the sink.

        Returns the origin's newest batch in the sink, where the sink decides which batch is the newest: the checkpoint
        has that batch, or will have it in a moment. None: the checkpoint decides.

        Raises CheckpointError if there is no such batch, or the service does not allow it.
        """
        self.make_empty(origin, forked)
        return None

    def history(
        self, origin: StreamSpec, places: Places, batch: int, manifest: Location | None = None
    ) -> Sequence[CopyStep]:
        """The steps that give a fork the files which `origin` wrote up to `batch`.

        Args:
            manifest: the folder with the manifest that lists them; None: that of the output.

        Raises CheckpointError if they are damaged, FileNotFoundError if they vanish meanwhile.
        """
        return ()

    def drop(self, forked: StreamSpec) -> str | None:
        """Remove what a fork has on the sink's service; returns what was removed, None if nothing was there.

        Raises CheckpointError if the service does not allow it, or the place does not belong to a fork.
        """
        return None

    # Set back by a crash matrix.

    FORGETFUL: ClassVar[Mapping[str, str]] = {}
    """Settings of Spark with which a connector remembers nothing of files that a crash matrix replaces."""

    @property
    def can_be_set_back(self) -> bool:
        """Whether `set_back` works, or the sink consists of files alone, which a crash matrix lays out."""
        return False

    def keep(self, forked: StreamSpec) -> None:
        """Keep a copy of everything that is there now, for `set_back`. Files need none: their record is the copy.

        Raises CheckpointError if the service does not allow it.
        """

    def set_back(self, forked: StreamSpec, batch: int | None, plan: bytes) -> None:
        """Set the fork's sink back to its content after `batch` (None: empty), as far as it was kept.

        Args:
            plan: content of `offsets/BATCH`.

        Raises CheckpointError if the service does not allow it.
        """

    # Brought to the batch of an exchanged checkpoint.

    def plan_restore(self, spec: StreamSpec, restore: Exchange, manifest: Location) -> OutputPlan:
        """Plan to take what was written after the batch of `restore` out of the output; nothing is changed.

        Args:
            manifest: the folder whose manifest lists the files up to the batch, of a sink of files: the savepoint's
                copy, or the output itself.

        Raises CheckpointError if it cannot be taken back, OSError.
        """
        raise CheckpointError(
            f"a sink of the kind {self.kind} cannot be put back to a savepoint",
            expected="a sink of files, a PostgreSQL table in append mode, or a topic whose records name their batch",
            where=f"sink of {spec.name}",
            next_step="fork the savepoint (`streamwarden savepoint fork`), or give the stream a new checkpoint path "
            "and a new output, in one change",
        )

    def prepare_restore(self, spec: StreamSpec, restore: Exchange, manifest: Location) -> None:
        """Copy what `restore_output` needs; nothing that a reader sees is changed. Raises CheckpointError, OSError.

        Args: as those of `plan_restore`.
        """

    def restore_output(self, spec: StreamSpec, restore: Exchange, plan: bytes) -> str:
        """Take what was written after the batch out of the output; returns what was done. Repeated after a kill, it
        completes.

        Args:
            restore: with the document that `plan_restore` returned; plan: content of `offsets/BATCH`.

        Raises CheckpointError, OSError.
        """
        return ""

    def require_passable(self, spec: StreamSpec, rewrite: Exchange) -> None:
        """Raises CheckpointError if `pass_over` is not possible, OSError."""

    def pass_over(self, spec: StreamSpec, rewrite: Exchange, plan: bytes) -> str:
        """Note that the batch of `rewrite` has no rows, where the output has a record of each batch; returns what was
        done. Repeated after a kill, it does nothing.

        Args:
            plan: content of `offsets/BATCH`.

        Raises CheckpointError, OSError.
        """
        return ""

    # Read back.

    @abstractmethod
    def read(
        self, spec: StreamSpec, like: Mapping[str, object], *, committed: int | None, first: int, deduplicated: bool
    ) -> Output:
        """Read back the stream's output.

        Args:
            like: column -> a value of its type, for formats that have no types: see `Expectation.samples`. Without one
                a value stays as the format has it.
            committed: the query's newest committed batch.
            first: first batch that is judged.
            deduplicated: False: as a reader sees it that does not drop repeated records.

        Raises VerificationError if it cannot be read.
        """

    @property
    def audited(self) -> bool:
        """Whether an audit can read this kind of sink."""
        kind = type(self)
        return kind.written is not Sink.written or kind.rows_of is not Sink.rows_of

    def written(self, spec: StreamSpec, audited: Range, began: float | None) -> WrittenFiles | None:
        """The files that the audited batches wrote; None: a service holds the rows (see `rows_of`).

        Args:
            began: when the batch before them was committed, Unix seconds; None if there is none.

        Raises OSError.
        """
        return None

    def rows_of_batches(self, spec: StreamSpec, batches: Range, began: float) -> Output | None:
        """The rows that these batches wrote; None: they cannot be told from others, or are not all there any more.

        Args:
            began: when the batch before them was committed, Unix seconds.

        Raises VerificationError, OSError.
        """
        return None

    def rows_of(
        self, spark: SparkSession, spec: StreamSpec, audited: Range, began: float | None, schema: StructType
    ) -> DataFrame | None:
        """The rows in `schema` that the audited batches and later ones wrote on the sink's service, with the column
        `WRITTEN_BY`, the batch; None: an audit cannot read this kind of sink, or `written` names its files.

        Args:
            began: when the batch before the audited ones was committed, Unix seconds; None if there is none.

        Raises VerificationError if the service does not answer, or does not keep these rows any more.
        """
        return None

    # Probed by drills.

    def listen(self, spec: StreamSpec) -> AbstractContextManager[Arrivals]:
        """Hear of every batch that arrives on the sink's service from here on. Raises DrillError if it cannot be
        reached."""
        raise self._without_service(spec)

    def newest(self, spec: StreamSpec) -> int | None:
        """Newest batch on the sink's service; None if there is none. Raises DrillError if it cannot be reached."""
        raise self._without_service(spec)

    def hold(self, spec: StreamSpec) -> AbstractContextManager[HeldTable]:
        """Lock the sink's table. Raises DrillError if it cannot be reached, or the sink has none."""
        raise self._without_service(spec)

    def other_writer(self, spec: StreamSpec) -> OtherWriter:
        """Another program that writes the sink's table, on this host. Raises DrillError if the sink is no table of
        files."""
        raise DrillError(
            f"the sink of {spec.name} is of kind {self.kind}, which is no table of files",
            expected="a sink of the kind delta or iceberg",
            where=f"sink.kind of {spec.name}",
            next_step="drill this stream with a fault that needs no such table, such as `kill_driver`",
        )

    def _without_service(self, spec: StreamSpec) -> DrillError:
        return DrillError(
            f"the sink of {spec.name} is of kind {self.kind}, which has no database or broker behind it",
            expected="a sink in a database or on a broker",
            where=f"sink.kind of {spec.name}",
            next_step="drill this stream with a fault that needs no such service, such as `kill_driver`",
        )


def repeated(key: tuple[str, ...]) -> Iterator[Problem]:
    """A key has each column once."""
    if len(set(key)) < len(key):
        yield Problem(key=("sink", "key"), observed=show(list(key)), allowed="each column once")


def missing_key(allowed: str) -> Problem:
    """The sink needs a key and has none."""
    return Problem(key=("sink", "key"), observed="missing", allowed=allowed, next_step="add `key: […]`")


def refused_mode(mode: OutputMode, allowed: str) -> Problem:
    """The sink cannot be written in this output mode."""
    return Problem(key=("sink", "mode"), observed=show(str(mode)), allowed=allowed)
