"""Exit codes of the command line: the one place that defines them."""

from enum import IntEnum
from typing import Self

from streamwarden import errors


class Exit(IntEnum):
    """The exit codes that a program which calls `streamwarden` can rely on, each with its meaning."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> Self:
        made = int.__new__(cls, code)
        made._value_, made.meaning = code, meaning
        return made

    OK = 0, "done, and the result is good"
    BAD = (
        1,
        "the result is bad: a driver failed, a check is CRITICAL, a checkpoint is damaged, a drill deviated, "
        "`lint` found an error",
    )
    USAGE = 2, "the command line or a configuration file is wrong; a retry does not help"
    UNAVAILABLE = 3, "the store, a process, Java or a lease is unavailable now; nothing was decided"
    UNDECIDED = (
        4,
        "no verdict: every check is UNKNOWN, the drill was aborted or did not complete, a rule of `lint` could not be "
        "judged, or `advise` has too little history",
    )
    DEFECT = 70, "a defect of Streamwarden itself; the message says where its traceback is"
    INTERRUPTED = 130, "ended by Ctrl-C"


def exit_of(error: errors.StreamwardenError) -> Exit:
    """The exit code of an error that ended a command."""
    if isinstance(error, errors.ConfigError):
        return Exit.USAGE
    if isinstance(error, errors.LaunchRefused):
        return Exit.BAD
    if isinstance(error, errors.StoreError | errors.ProcessError | errors.LeaseError):
        return Exit.UNAVAILABLE
    if isinstance(error, errors.DrillError | errors.VerificationError):
        return Exit.UNDECIDED
    return Exit.BAD
