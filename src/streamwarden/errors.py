"""Every error that Streamwarden raises on purpose.

    StreamwardenError
    ├── ConfigError            a YAML file, a setting or a command line is wrong; a restart cannot cure it
    ├── CheckpointError        a checkpoint is missing, damaged or belongs to another query
    │   └── CheckpointMissing  there is no such folder: the query has not started yet, or the path is wrong
    ├── LeaseError
    │   ├── LeaseHeld          another driver runs this stream, or writes to this checkpoint
    │   └── LeaseLost          this holder was replaced and must stop (it is fenced)
    ├── StoreError             the progress store cannot be reached or refuses
    ├── SinkError              what a stream writes to (a database, a topic) cannot be reached or refuses for now
    │   └── SinkInterrupted    the driver has to end while it waits for what the stream writes to
    ├── ProcessError           a driver could not be launched, observed or stopped
    ├── SourceError            what a stream reads from cannot be reached, or does not hold what it should
    │   ├── InputGone          what a batch read cannot be read again, by anybody
    │   └── SourceUnresponsive what a stream reads from does not answer in time
    ├── JobError               the job's module cannot be imported or does not build a query
    │   └── ScriptFailed       a script ended with a status that is not 0: why, only what it raised can tell
    ├── DrillError
    │   └── DrillAborted       a precondition of a drill does not hold: nothing was broken
    └── VerificationError      an oracle or the reconciliation cannot reach a verdict

A message has four parts: what was observed, what was expected, where, and what to do next.
"""

from __future__ import annotations

__all__ = ["ConfigError", "VerificationError"]


class StreamwardenError(Exception):
    """Base of the tree; carries the four parts that a person on call needs.

    Args:
        observed: what is the case, with the offending value.
        expected: what should be the case, or what is allowed.
        where: file and key, path, stream, or host and pid.
        next_step: the one thing to do next.
    """

    def __init__(self, observed: str, *, expected: str = "", where: str = "", next_step: str = "") -> None:
        self.observed = observed
        self.expected = expected
        self.where = where
        self.next_step = next_step
        super().__init__(observed, expected, where, next_step)

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
    """The right to run a stream and to write to its checkpoint could not be had or kept."""


class LeaseHeld(LeaseError):
    """Another driver runs this stream, or writes to this checkpoint."""


class LeaseLost(LeaseError):
    """This holder was replaced: it must stop without writing another batch."""


class StoreError(StreamwardenError):
    """The progress store cannot be reached or refuses."""


class SinkError(StreamwardenError):
    """What a stream writes to cannot be reached or refuses for now; a restart may find it well."""


class SinkInterrupted(SinkError):
    """The driver has to end (a stop, a lost lease) while it waits for what the stream writes to."""


class ProcessError(StreamwardenError):
    """A driver could not be launched, observed or stopped."""


class SourceError(StreamwardenError):
    """What a stream reads from cannot be reached, or does not hold what it should."""


class InputGone(SourceError):
    """What a batch read cannot be read again: nobody knows any more what it was, or it is not kept any more."""


class SourceUnresponsive(SourceError):
    """What a stream reads from does not answer in time: the same question may be answered later."""


class JobError(StreamwardenError):
    """The job's module cannot be imported or does not build a query."""


class ScriptFailed(JobError):
    """A script ended with a status that is not 0: why, only what it raised before can tell."""


class DrillError(StreamwardenError):
    """A drill could not be carried out."""


class DrillAborted(DrillError):
    """A precondition of a drill does not hold, so nothing was broken."""


class VerificationError(StreamwardenError):
    """An oracle or the reconciliation cannot reach a verdict."""
