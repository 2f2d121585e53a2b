"""Why a driver ended: Spark's errors and process exits, turned into a record a person can act on. Pure."""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass, replace
from typing import Final

from streamwarden.lifecycle.causes import cause_of
from streamwarden.lifecycle.chain import Chain, chain_of_text
from streamwarden.lifecycle.driver import ExitKind, ExitRecord
from streamwarden.lifecycle.signs import Cause
from streamwarden.lifecycle.state_change import state_change
from streamwarden.lifecycle.stop import StopRequest

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

    A cause that is not known is curable, before the query starts as after it: whatever the job needs may be away, and
    the restart budget bounds what that costs. Only what is known to come again stays down.

    Args:
        built: the query had started.
        chain: the chain of causes; empty: what the message and the error class tell.
        away: what was found to be away when an error came that tells of no known cause.
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
    False: "read driver.log: the job failed before its query started. If it is the job, correct it and start the "
    "stream again; if something that it needs was away, the next start finds it",
}


def _headed(cause: Cause | None, message: str) -> str:
    """The message, which begins with what a person has to know first."""
    change = state_change(message)
    if change is not None:  # Spark prints both schemas whole and leaves it to the reader to compare them
        return f"{change}: {message}"
    if cause is not None and cause.outage and not cause.ours:
        return f"{cause.what}: {message}"
    return message


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessExit:
    """How the process ended, as its keeper saw it. `error`: it could not even be started; `errno`: the number of that
    error."""

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
    """One record from what the runner said and what the keeper saw; either may be missing.

    The runner's word on *why* wins. Without it the process's end tells: a signal, or the exit code 128 + N with which
    spark-submit reports that its Python half was ended by signal N.
    """
    if outcome is not None:
        # A runner that was being killed could not know whether its last batch would still commit.
        known = replace(outcome, cut_batch=cut_batch if outcome.cut_batch is None else outcome.cut_batch)
        if process is None:
            return known
        return replace(known, exit_code=process.exit_code, signal=known.signal or process.signal)
    if process is None:
        return ExitRecord(
            kind=ExitKind.KILLED,
            ended_at=now,
            message="the driver vanished, and so did its keeper: both were killed, or the host went down",
            cut_batch=cut_batch,
            next_step="look for the out-of-memory killer or a reboot in the system's journal",
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


def _from_log(log_tail: str, process: ProcessExit, cut_batch: bool | None) -> ExitRecord:
    """The record of a driver whose runner wrote none: spark-submit itself failed, as a rule."""
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
            f"a stop was requested by {stop.requested_by} ({stop.reason}); the batch did not end in time, so the "
            f"driver was ended by signal {signum}"
        )
        next_step = "nothing is lost: the cut batch runs again at the next start"
    else:
        message = f"the driver was ended by signal {signum}"
        next_step = (
            "look for the out-of-memory killer in the system's journal, or ask who sent it"
            if signum == 9
            else "ask who sent the signal"
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
