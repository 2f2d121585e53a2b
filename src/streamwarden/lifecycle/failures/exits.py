"""Why a driver ended: Spark's errors and process exits, turned into a record a person can act on. Pure."""

import errno
import re
from dataclasses import dataclass, replace
from typing import Final

from streamwarden.lifecycle.driver import ExitKind, ExitRecord
from streamwarden.lifecycle.failures.causes import cause_of
from streamwarden.lifecycle.failures.error_chain import Chain, chain_of_text
from streamwarden.lifecycle.failures.failure_patterns import Cause
from streamwarden.lifecycle.failures.state_change import state_change
from streamwarden.lifecycle.supervision.stop import StopRequest

MESSAGE_LIMIT: Final = 600
"""Characters of a recorded message: Spark's own run to pages of plans and stack frames."""

OUT_OF_MEMORY_CODE: Final = 3
"""Exit code of a JVM that ran with -XX:+ExitOnOutOfMemoryError."""

FENCED_CODE: Final = 10
"""Exit code of a runner that lost its lease."""

_WRONG_COMMAND: Final = frozenset({errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.ENOEXEC})
"""Errors of the operating system that a command has each time it is started; what else there is (no memory, too many
processes) may pass."""

_FATAL: Final = "Exception in thread "
"""What the JVM prints before the exception that ended it. Where the runner left no outcome, the JVM's own words in the
log are all that there is."""

_OUT_OF_MEMORY: Final = "Terminating due to java.lang.OutOfMemoryError"
"""What the JVM prints when -XX:+ExitOnOutOfMemoryError ends it, read where the exit code does not say so."""


def failure(
    error_class: str | None,
    message: str,
    *,
    at: float,
    cut_batch: bool | None,
    built: bool,
    chain: Chain = (),
    away: Cause | None = None,
) -> ExitRecord:
    """The record of a query or job that raised.

    An unknown cause is curable, whether or not the query had started: a service that the job needs may be unavailable,
    and the restart budget limits what the attempts cost. Only a cause that would recur keeps the stream down.

    Args:
        built: the query had started.
        chain: the chain of causes; empty: it is read from the message and the error class.
        away: the unavailable server that was found for an error without a known cause.
    """
    cause = cause_of(chain or chain_of_text(message, error_class), started=built) or away
    return ExitRecord(
        kind=ExitKind.FENCED if cause is not None and cause.fenced else ExitKind.FAILED,
        ended_at=at,
        error_class=error_class,
        message=shortened(_headed(cause, message)),
        curable=cause is None or cause.curable,
        cut_batch=cut_batch,
        next_step=cause.next_step if cause is not None else _UNKNOWN[built],
        cause=cause.code if cause is not None else None,
    )


_UNKNOWN: Final = {
    True: "read driver.log; a restart repeats the batch",
    False: "read driver.log: the job failed before its query started. If the job is wrong, correct it and start the "
    "stream again; if a service that it needs was unavailable, the next start succeeds once it is back",
}


def _headed(cause: Cause | None, message: str) -> str:
    """The message, beginning with what a person has to know first."""
    change = state_change(message)
    if change is not None:  # Spark prints both schemas in full and leaves the comparison to the reader
        return f"{change}: {message}"
    if cause is not None and cause.outage and not cause.ours:
        return f"{cause.what}: {message}"
    return message


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessExit:
    """How the process ended, as its supervisor process saw it. `error`: why it could not be started; `errno`: the
    number of that error."""

    ended_at: float
    exit_code: int | None = None
    signal: int | None = None
    error: str | None = None
    errno: int | None = None


def compose(
    outcome: ExitRecord | None,
    process: ProcessExit | None,
    *,
    now: float,
    stop: StopRequest | None = None,
    log_tail: str = "",
    cut_batch: bool | None = None,
) -> ExitRecord:
    """One record from the runner's outcome and from what the supervisor process saw; either may be missing.

    The runner's reason wins. Without it the end of the process decides: a signal, or the exit code 128 + N with which
    spark-submit reports that signal N ended its Python half.
    """
    if outcome is not None:
        # A runner that was being killed could not know whether its last batch would still commit.
        completed = replace(outcome, cut_batch=cut_batch if outcome.cut_batch is None else outcome.cut_batch)
        if process is None:
            return completed
        return replace(completed, exit_code=process.exit_code, signal=completed.signal or process.signal)
    if process is None:
        return ExitRecord(
            kind=ExitKind.KILLED,
            ended_at=now,
            message="the driver and its supervisor process vanished: both were killed, or the host went down",
            cut_batch=cut_batch,
            next_step="check the system's journal for the out-of-memory killer or a reboot",
        )
    if process.error is not None:
        return ExitRecord(
            kind=ExitKind.FAILED,
            ended_at=process.ended_at,
            exit_code=process.exit_code,
            error_class="ProcessError",
            message=shortened(f"the driver could not be started: {process.error}"),
            curable=process.errno is not None and process.errno not in _WRONG_COMMAND,
            cut_batch=cut_batch,
            next_step="correct the command or install what it names",
        )
    code = process.exit_code
    signum = process.signal or (code - 128 if code is not None and 128 < code < 160 else None)
    if signum is not None:
        return _killed(signum, process, stop, cut_batch)
    if code == OUT_OF_MEMORY_CODE or _OUT_OF_MEMORY in log_tail:
        record = failure(
            "java.lang.OutOfMemoryError",
            "the JVM ran out of memory",
            at=process.ended_at,
            cut_batch=cut_batch,
            built=True,
        )
        return replace(record, exit_code=code)
    return _from_log(log_tail, process, cut_batch)


def not_submitted(error_class: str, text: str, *, at: float) -> ExitRecord:
    """The record of a driver that spark-submit could not hand to its cluster. `text`: what it printed last."""
    command, _, printed = text.partition("\n")
    _, fatal, last_words = printed.rpartition(_FATAL)
    cause = cause_of(chain_of_text(f"{fatal}{last_words}"))
    return ExitRecord(
        kind=ExitKind.FAILED,
        ended_at=at,
        error_class=error_class,
        message=shortened(_headed(cause, last_error(printed) or printed or command)),
        curable=cause is None or cause.curable,
        next_step=cause.next_step if cause is not None else "read the log of the task",
        cause=cause.code if cause is not None else None,
    )


def _from_log(log_tail: str, process: ProcessExit, cut_batch: bool | None) -> ExitRecord:
    """The record of a driver whose runner wrote no outcome: usually spark-submit itself failed."""
    message = last_error(log_tail) or f"the driver ended with exit code {process.exit_code} and gave no reason"
    _, fatal, last_words = log_tail.rpartition(_FATAL)
    cause = cause_of(chain_of_text(f"{fatal}{last_words}")) if fatal else None
    return ExitRecord(
        kind=ExitKind.FAILED,
        ended_at=process.ended_at,
        exit_code=process.exit_code,
        message=shortened(_headed(cause, message)),
        curable=cause is None or cause.curable,
        cut_batch=cut_batch,
        next_step=cause.next_step if cause is not None else "read driver.log",
        cause=cause.code if cause is not None else None,
    )


def _killed(signum: int, process: ProcessExit, stop: StopRequest | None, cut_batch: bool | None) -> ExitRecord:
    if stop is not None and process.ended_at >= stop.batch_deadline:
        message = (
            f"a stop was requested by {stop.requested_by} ({stop.reason}); the batch did not end in time, so "
            f"signal {signum} ended the driver"
        )
        next_step = "nothing is lost: the interrupted batch runs again at the next start"
    else:
        message = "no stop was requested" if stop is None else "a requested stop was waiting for the end of the batch"
        next_step = (
            "check the system's journal for the out-of-memory killer, or find out what sent the signal"
            if signum == 9
            else "find out what sent the signal"
        )
    return ExitRecord(
        kind=ExitKind.KILLED,
        ended_at=process.ended_at,
        exit_code=process.exit_code,
        signal=signum,
        message=message,
        cut_batch=cut_batch,
        next_step=next_step,
    )


def shortened(message: str, limit: int = MESSAGE_LIMIT) -> str:
    """`message` without stack frames and blank lines, at most `limit` characters."""
    kept = [
        line.rstrip()
        for line in message.splitlines()
        if line.strip() and not re.match(r"\s*(?:at |\.\.\. \d+ more|JVM stacktrace)", line)
    ]
    text = "\n".join(kept)
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def last_error(log: str) -> str | None:
    """The last line of a log that names an error or exception."""
    lines = [line.strip() for line in log.splitlines() if re.search(r"\b\w*(?:Exception|Error)\b|^Error", line)]
    lines = [line for line in lines if not line.startswith("at ")]
    return lines[-1] if lines else None
