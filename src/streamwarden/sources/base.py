"""Base classes of the kinds of source; `sources.KINDS` lists the kinds.

A kind of source is a frozen dataclass whose fields are the keys of its YAML block. To add one:

1. Write a module with a subclass of one of these, by what Spark can do with the input a second time:
   `StoredSource`: the input stays where it is, so that a fork and a verification read it again (files);
   `CopyableSource`: a stored log of records with offsets, of which a fork can have a copy (a topic);
   `GeneratedSource`: Spark makes the rows, and nothing is stored (the rate source). It has no end: a fork ends after
   a number of batches.
   The abstract methods list the questions to answer: the class cannot be created while one is missing.
2. Add one line to `sources.KINDS`. The schema of the YAML, the rules, forks, probes, verification and the catalogue of
   jobs derive from the class.
3. If Spark needs jars, name their pom in `adapters/jvm/jars/` (`CONNECTOR`); if a service of the network holds the
   input, name it (`SERVICE`).
4. If scripts read it and an audit can read it again, name it as Spark does (`FORMATS`), and say how.

The command line and the DAG files import each kind, so a kind imports pyspark and client libraries in its methods only.
A kind that needs more than one module is a package: the module that declares it imports the others in its methods.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from streamwarden.adapters.storage.files import checkpoint_of
from streamwarden.checkpoint.changed_input import ChangedFile
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.logs import log_position
from streamwarden.checkpoint.topics import TopicRange
from streamwarden.errors import VerificationError
from streamwarden.health.window import PartitionLag, WaitingInput
from streamwarden.lifecycle.forks.fork import BoundedInput
from streamwarden.lifecycle.forks.places import Places
from streamwarden.lifecycle.forks.topic_copy import CopiedTopic, Feed
from streamwarden.problems import Problem, show
from streamwarden.sources.audited import AskedSource
from streamwarden.stream.spec import SourceSpec, StreamSpec
from streamwarden.verification.comparing.balance import Range
from streamwarden.verification.oracle import RateFacts

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from streamwarden.sources.rows import Rules


class BatchInput(Protocol):
    """How to read a batch's input again, exactly as the query reads it."""

    @property
    def rules(self) -> Rules:
        """The rules for its rows."""

    def placing(self) -> list[Column]:
        """The columns `written_ms` and `place`."""

    def where(self) -> Column:
        """Where a row is, in words."""

    def malformed_of(self, spark: SparkSession, checkpoint: Location, place: int, batch: int) -> DataFrame:
        """The malformed rows of the batch: text, where each is, what is wrong with it, what could be read of it.

        Raises InputGone if the checkpoint no longer says what the batch read; OSError, StreamwardenError if it cannot
        be read.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRequest:
    """The rows that a job asks for; see `spark.sources.read_rows`."""

    schema: StructType | str
    required: tuple[str, ...] = ()
    not_after: Mapping[str, timedelta] = field(default_factory=dict)
    part: str | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """A streaming frame with good and malformed rows, how to read its batches again, and which source of the query it
    is."""

    frame: DataFrame
    input: BatchInput
    place: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    """A run of a stream whose input is read again to verify its output.

    Args:
        committed: its newest committed batch; None if none was.
        into: an empty folder for the input that has to be fetched; None: only what the checkpoint says is wanted.
        inputs, lost, copied, bounded_from, owed: see `verification.verify`.
        compared_from: first batch whose input has to be there as it was read.
    """

    checkpoint: Location
    committed: int | None
    into: Path | None = None
    inputs: Sequence[Path] | None = None
    lost: Sequence[TopicRange] = ()
    copied: CopiedTopic | None = None
    bounded_from: int | None = None
    owed: int = 0
    compared_from: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInput:
    """The input of a finished run, as local files that an oracle can take.

    Args:
        inputs: the whole bounded input.
        files: committed batch -> the files that it read.
        rate: of a source that makes its rows.
        problems: deviations that the input itself shows.
    """

    inputs: Sequence[Path] = ()
    files: Mapping[int, Sequence[Path]] = field(default_factory=dict)
    rate: RateFacts | None = None
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Source(SourceSpec, ABC):
    """A source whose declaration describes the input."""

    DECLARED: ClassVar[bool] = True
    FORMATS: ClassVar[tuple[str, ...]] = ()
    """Spark's names, in lower case, under which a job reads such a source by itself."""

    @abstractmethod
    def problems(self) -> Iterable[Problem]:
        """Problems of the declaration, beyond the types of its keys."""

    @abstractmethod
    def describe(self, shorten: Callable[[str], str]) -> str:
        """The input, for the catalogue of jobs, in Markdown. `shorten` makes a path relative to the data folder."""

    @abstractmethod
    def read_back(self, spec: StreamSpec, run: FinishedRun) -> RunInput:
        """The input of the run of `spec`. Raises VerificationError if that cannot be known or read any more."""

    def changed(self, spec: StreamSpec, checkpoint: Location, batches: Collection[int]) -> Sequence[ChangedFile]:
        """The input of these batches that is not there any more as they read it. By default input does not change.

        Raises CheckpointError.
        """
        return ()

    # Audited. A job may read sources that its stream does not declare, so that each kind is asked.

    @classmethod
    def audited(cls, spec: StreamSpec, checkpoint: Location, audited: Range) -> Any:
        """What the audited batches read from sources of this kind, as JSON, for `read_audited`; None: not known.

        Raises CheckpointError, OSError, Damaged.
        """
        return None

    @classmethod
    def read_audited(cls, asked: AskedSource, read: Any) -> DataFrame:
        """The rows that the audited batches read from the source, with the column AUDIT. Raises CannotBalance."""
        raise asked.unreadable()

    @classmethod
    def audited_batches(cls, read: Any) -> Iterable[tuple[str, int]]:
        """(the column AUDIT, batch) of what the rows come from, where they are not tagged with the batch itself."""
        return ()

    @classmethod
    def audit_notes(cls, spec: StreamSpec, read: Any) -> Iterable[str]:
        """What the input shows by itself, and what explains books that do not balance."""
        return ()

    def pattern_names(self, spec: StreamSpec) -> Sequence[str]:
        """Names of the input, as it is now, that Spark takes for patterns. Raises OSError, ConfigError."""
        return ()

    def located(self, locate: Callable[[str], str]) -> Source:
        """The source with its paths resolved by `locate`."""
        return self

    # Forked.

    @abstractmethod
    def forked(self, places: Places, feed: Feed) -> Source:
        """The source as a fork reads it."""

    def bounded(self, forked: StreamSpec, after: int | None, batches: int) -> StreamSpec:
        """The spec of a fork, so that the fork has an end. By default the end is that of the input that is there.

        Args:
            after: the committed batch that the fork starts after; None: it starts from nothing.
            batches: how many batches the fork of a source without an end runs.
        """
        return forked

    @abstractmethod
    def batches(self, unseen: int) -> int | None:
        """Batches that `unseen` files or records make, no-data batches apart; None if that cannot be computed."""

    @abstractmethod
    def take_input(self, spec: StreamSpec, forked: StreamSpec, checkpoint: str | None, feed: Feed) -> BoundedInput:
        """Give the fork the input of `spec` that is there now; nothing of the original changes.

        Args:
            checkpoint: the fork's, if it has read some of the input; None: it begins with an empty checkpoint.

        Raises SourceError, CheckpointError, ConfigError, OSError; FileNotFoundError if a file vanished meanwhile.
        """

    @abstractmethod
    def unplanned(self, forked: StreamSpec) -> int:
        """Files or records of the fork's input that none of its batches has planned.

        Raises SourceError, CheckpointError, ConfigError.
        """

    def owed(self, ranges: Sequence[TopicRange]) -> int:
        """Of the records that a fork had to read, those that the source still keeps.

        Raises VerificationError if the source does not answer.
        """
        return 0

    def drop_scratch(self) -> str | None:
        """Remove what this source, which is a fork's, has outside of the fork's folders. Returns its name, None if
        there is nothing. Raises CheckpointError."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSource(Source, ABC):
    """A source whose input stays where it is: it can be counted and read again."""

    LIMIT: ClassVar[str]
    """Spark's option for the most files or records that a batch reads."""

    # Read by the fork of a script. Options have their names in lower case; a path is one of them.

    @classmethod
    def fork_options(cls, options: Mapping[str, str | None]) -> dict[str, str]:
        """The options that a fork sets, so that it reads from the beginning and neither removes nor moves anything."""
        return {}

    @classmethod
    def count(cls, spark: SparkSession, options: Mapping[str, str | None]) -> int | None:
        """Files or records that are there now, to limit batches by; None: they are not to be limited, or not known."""
        return None

    @abstractmethod
    def read(self, spark: SparkSession, spec: StreamSpec, request: RowRequest) -> Reading:
        """The rows of the input as a streaming frame. Raises ConfigError."""

    @abstractmethod
    def waiting(self, spec: StreamSpec, checkpoint: Location) -> WaitingInput | None:
        """The input that no batch of the query has planned; None if that cannot be computed.

        Raises SourceUnresponsive if the source does not answer in time; SourceError, ConfigError, CheckpointError,
        OSError.
        """

    @abstractmethod
    def forked(self, places: Places, feed: Feed) -> StoredSource: ...

    @abstractmethod
    def limited_to(self, most: int) -> StoredSource:
        """The source whose batches read at most `most` files or records."""

    def require_planned(self, spec: StreamSpec) -> None:
        """Check, before the query starts, what Spark would not notice: that the input of a batch that is planned and
        not committed is still there. By default Spark notices it.

        Raises InputGone if it is not.
        """
        return


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyableSource(StoredSource, ABC):
    """A log of records with offsets: a fork can read a copy of it, which a drill may then change and break."""

    OFFSETS: ClassVar[bool] = True

    @abstractmethod
    def lags(self, forked: StreamSpec) -> Sequence[PartitionLag]:
        """Each partition of the copy: the offsets of the fork's checkpoint and those of the log."""

    @abstractmethod
    def first_reach(self, forked: StreamSpec, partitions: Collection[int]) -> int | None:
        """The first batch that was planned with records of one of these partitions; None if there is none yet."""

    @abstractmethod
    def grow(self, forked: StreamSpec, copied: CopiedTopic) -> None:
        """Add partitions to the copy, with the records that were held back."""

    @abstractmethod
    def forget(self, forked: StreamSpec, before: Mapping[int, int]) -> None:
        """Remove the records of the copy before an offset of each partition, as a retention does."""

    @abstractmethod
    def recreate(self, forked: StreamSpec, copied: CopiedTopic, leave: Mapping[int, int]) -> None:
        """Delete the copy and create it again with the first `leave[partition]` records of each partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedSource(Source, ABC):
    """A source whose rows Spark makes by the clock: no input waits, and it never comes to an end.

    The checkpoint alone says which rows a batch has. So a fork reads the same source as its origin, and ends with a
    last batch.
    """

    GENERATED: ClassVar[bool] = True

    @abstractmethod
    def generate(self, spark: SparkSession) -> DataFrame:
        """The rows as a streaming frame, with the columns that the source gives them."""

    def forked(self, places: Places, feed: Feed) -> GeneratedSource:
        return self

    def bounded(self, forked: StreamSpec, after: int | None, batches: int) -> StreamSpec:
        return replace(forked, last_batch=_number(after) + batches)

    def batches(self, unseen: int) -> int:
        """`unseen` itself, which already counts batches."""
        return unseen

    def take_input(self, spec: StreamSpec, forked: StreamSpec, checkpoint: str | None, feed: Feed) -> BoundedInput:
        """The batches of the bound that the fork's checkpoint does not have yet."""
        count = self.unplanned(forked)
        text = f"{self.kind}\t{sorted(self.options.items())}\t{count} batches up to {forked.last_batch}"
        digest = hashlib.sha256(text.encode()).hexdigest()
        return BoundedInput(what="batch", total=count, unseen=count, longest_queue=count, digest=digest)

    def unplanned(self, forked: StreamSpec) -> int:
        """Batches up to the fork's last one that it has not planned. Raises CheckpointError."""
        position = log_position(checkpoint_of(forked))
        return max(0, _number(forked.last_batch) - _number(position.planned))


def _number(batch: int | None) -> int:
    """The batch as a number that the next one exceeds by one; of a query without a batch, -1."""
    return -1 if batch is None else batch


def positive(key: str, value: int | None) -> Iterator[Problem]:
    """A limit of a batch's input is at least 1."""
    if value is not None and value < 1:
        yield Problem(key=("source", key), observed=show(value), allowed="at least 1")


def unknown_input(checkpoint: str, why: object) -> VerificationError:
    """The logs of the checkpoint are not whole."""
    return VerificationError(
        f"the checkpoint does not say what was read: {why}",
        expected="whole logs in offsets/, commits/ and sources/, and state schemas",
        where=checkpoint,
        next_step="run `streamwarden inspect` on it",
    )
