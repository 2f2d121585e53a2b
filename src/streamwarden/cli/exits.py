"""Exit codes of the command line: the one place that defines them."""

from __future__ import annotations

from enum import IntEnum

from streamwarden import errors


class Exit(IntEnum):
    """What a program that calls `streamwarden` can tell from the exit code."""

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
    Exit.OK: "done, and the answer is good",
    Exit.BAD: (
        "the answer is bad: a driver failed, a check is CRITICAL, a checkpoint is damaged, a drill deviated, "
        "a rule of `lint` is broken"
    ),
    Exit.USAGE: "the command line or a file of the configuration is wrong; trying again does not help",
    Exit.UNAVAILABLE: "store, process, Java or lease could not be had now; nothing was decided",
    Exit.UNDECIDED: (
        "no verdict: every check is UNKNOWN, the drill was aborted or failed itself, a rule of `lint` could not be "
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
