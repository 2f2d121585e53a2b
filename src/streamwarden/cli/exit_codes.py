"""Exit codes of the command line: the one place that defines them."""

from __future__ import annotations

from enum import IntEnum

from streamwarden import errors


class Exit(IntEnum):
    """The exit codes that a program which calls `streamwarden` can rely on."""

    OK = 0
    BAD = 1
    USAGE = 2
    UNAVAILABLE = 3
    UNDECIDED = 4
    DEFECT = 70
    INTERRUPTED = 130

    @property
    def meaning(self) -> str:
        return _MEANINGS[self]


_MEANINGS = {
    Exit.OK: "done, and the result is good",
    Exit.BAD: (
        "the result is bad: a driver failed, a check is CRITICAL, a checkpoint is damaged, a drill deviated, "
        "`lint` found an error"
    ),
    Exit.USAGE: "the command line or a configuration file is wrong; a retry does not help",
    Exit.UNAVAILABLE: "the store, a process, Java or a lease is unavailable now; nothing was decided",
    Exit.UNDECIDED: (
        "no verdict: every check is UNKNOWN, the drill was aborted or did not complete, a rule of `lint` could not be "
        "judged, or `advise` has too little history"
    ),
    Exit.DEFECT: "a defect of Streamwarden itself; the message says where its traceback is",
    Exit.INTERRUPTED: "ended by Ctrl-C",
}


def exit_of(error: errors.StreamwardenError) -> Exit:
    """The exit code of an error that ended a command."""
    if isinstance(error, errors.ConfigError):
        return Exit.USAGE
    if isinstance(error, errors.StoreError | errors.ProcessError | errors.LeaseError):
        return Exit.UNAVAILABLE
    if isinstance(error, errors.DrillError | errors.VerificationError):
        return Exit.UNDECIDED
    return Exit.BAD
