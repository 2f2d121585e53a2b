"""Every error that Streamwarden raises on purpose.

    StreamwardenError
    ├── ConfigError            a YAML file, a setting or a command line is wrong; a restart cannot fix it
    ├── CheckpointError        a checkpoint is missing, damaged or belongs to another query
    │   └── CheckpointMissing  there is no such folder: the query has not started yet, or the path is wrong
    ├── LeaseError
    │   ├── LeaseHeld          another driver runs this stream, or writes to this checkpoint
    │   ├── HostUnfit          this host may not start the stream now; another one may
    │   └── LeaseLost          this holder was replaced, so it must stop (it is fenced)
    ├── ProgressError          a progress report is not one of Spark's
    ├── StoreError             the progress store cannot be reached or refuses
    ├── SinkError              the database or topic that a stream writes to is unavailable for now
    │   └── SinkInterrupted    the driver has to end while it waits for that database or topic
    ├── TableConflict          another program changed the table while a batch was being written, which is not in it
    ├── MissingExtra           a package is not installed that an extra of streamwarden brings; also an ImportError
    ├── ProcessError           a driver could not be launched, observed or stopped
    │   └── LaunchRefused      store, checkpoint and output contradict each other: a start would lose or double rows
    ├── AirflowError           Airflow's REST API does not answer, or refuses
    ├── SourceError            the input of a stream is unavailable, or lacks data that it should have
    │   ├── InputGone          the input of a batch no longer exists or is no longer known
    │   │   └── TableInputGone     a table no longer has the commits or files that a batch has to read
    │   └── SourceUnresponsive the service that holds the input does not answer in time
    ├── JobError               the job's module cannot be imported or does not build a query
    │   ├── BatchUnknown       nobody can say whether the output has a batch that is to run again
    │   └── ScriptFailed       a script ended with a status other than 0; only the exception that it raised says why
    ├── DrillError
    │   └── DrillAborted       a precondition of a drill does not hold, so nothing was broken
    └── VerificationError      an oracle or the reconciliation cannot reach a verdict

A message has four parts: what was observed, what was expected, where, and what to do next.
"""

from __future__ import annotations

from typing import Self

__all__ = ["ConfigError", "VerificationError"]


class StreamwardenError(Exception):
    """Base of the tree; carries the four parts that an engineer on call needs.

    Args:
        observed: what was observed, with the offending value.
        expected: what was expected, or what is allowed.
        where: file and key, path, stream, or host and pid.
        next_step: the one thing to do next.
    """

    def __init__(self, observed: str, *, expected: str = "", where: str = "", next_step: str = "") -> None:
        self.observed = observed
        self.expected = expected
        self.where = where
        self.next_step = next_step
        super().__init__(observed, expected, where, next_step)

    @classmethod
    def of(cls, error: StreamwardenError, prefix: str = "") -> Self:
        """An error of this kind with the four parts of another one, and `prefix` before what was observed."""
        return cls(f"{prefix}{error.observed}", expected=error.expected, where=error.where, next_step=error.next_step)

    def __str__(self) -> str:
        parts = [f"{self.where}: {self.observed}" if self.where else self.observed]
        if self.expected:
            parts.append(f"expected {self.expected}")
        if self.next_step:
            parts.append(f"next: {self.next_step}")
        return "; ".join(parts)

    def __reduce__(self) -> tuple[object, ...]:
        parts = {"expected": self.expected, "where": self.where, "next_step": self.next_step}
        return _rebuild, (type(self), self.observed, parts)


def _rebuild(kind: type[StreamwardenError], observed: str, parts: dict[str, str]) -> StreamwardenError:
    return kind(observed, **parts)


class ConfigError(StreamwardenError):
    """A YAML file, a setting or a command line is wrong."""


class InvalidValue(ValueError):
    """A value that its type does not allow. It is a ValueError so that the schema library reports it with its key.

    Args:
        observed: the value, as a message shows it.
        allowed: what is allowed instead.
        key: dotted key of the value below the mapping that was read; empty if the value itself was read.
    """

    def __init__(self, observed: str, *, allowed: str, key: str = "") -> None:
        self.observed = observed
        self.allowed = allowed
        self.key = key
        super().__init__(f"{key} is {observed}, allowed is {allowed}" if key else f"{observed} is not {allowed}")


class CheckpointError(StreamwardenError):
    """A checkpoint is missing, damaged or belongs to another query."""


class CheckpointMissing(CheckpointError):
    """There is no such folder: the query has not started yet, or the path is wrong."""


class LeaseError(StreamwardenError):
    """The right to run a stream and to write to its checkpoint could not be acquired or kept."""


class LeaseHeld(LeaseError):
    """Another driver runs this stream, or writes to this checkpoint."""


class HostUnfit(LeaseError):
    """This host may not start the stream now: it is drained, or its storage lacks the checkpoint. Another host may."""


class LeaseLost(LeaseError):
    """This holder was replaced: it must stop without writing another batch."""


class ProgressError(StreamwardenError):
    """A progress report lacks a key, or has a value of another type than Spark writes."""


class StoreError(StreamwardenError):
    """The progress store cannot be reached or refuses."""


class SinkError(StreamwardenError):
    """The database or topic that a stream writes to is unavailable for now; a restart may succeed."""


class SinkInterrupted(SinkError):
    """The driver has to end (a stop, a lost lease) while it waits for an unavailable sink."""


class TableConflict(StreamwardenError):
    """Another program changed the table while a batch was being written, and the batch is not in it; a restart writes
    it."""


class MissingExtra(StreamwardenError, ModuleNotFoundError):
    """A package is not installed that an extra of streamwarden brings; a restart cannot fix it."""


class ProcessError(StreamwardenError):
    """A driver could not be launched, observed or stopped."""


class LaunchRefused(ProcessError):
    """The store, the checkpoint and the output contradict each other: a start would lose or double rows."""


class AirflowError(StreamwardenError):
    """Airflow's REST API does not answer, or refuses."""


class SourceError(StreamwardenError):
    """The input of a stream is unavailable, or lacks data that it should have."""


class InputGone(SourceError):
    """The input of a batch cannot be read again: it is no longer known which it was, or it no longer exists."""


class TableInputGone(InputGone):
    """A table no longer has the commits or the data files that a batch has to read."""


class SourceUnresponsive(SourceError):
    """The service that holds the input does not answer in time; a later request may succeed."""


class JobError(StreamwardenError):
    """The job's module cannot be imported or does not build a query."""


class BatchUnknown(JobError):
    """The output no longer shows whether it has a batch that an earlier driver may have written."""


class ScriptFailed(JobError):
    """A script ended with a status other than 0. Only the exception that it raised before says why."""


class DrillError(StreamwardenError):
    """A drill could not be carried out."""


class DrillAborted(DrillError):
    """A precondition of a drill does not hold, so nothing was broken."""


class VerificationError(StreamwardenError):
    """An oracle or the reconciliation cannot reach a verdict."""
