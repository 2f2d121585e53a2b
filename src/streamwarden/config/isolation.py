"""Isolates files from each other: any exception while reading a file becomes the error of that file."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from streamwarden.errors import ConfigError, StreamwardenError
from streamwarden.problems import show

_LOG = logging.getLogger(__name__)


class UnforeseenError(ConfigError):
    """An exception that no rule foresaw. It is a defect of Streamwarden, and it stops only the file that caused it."""


def printable(name: str) -> str:
    """A file's name as text that can be stored: bytes that are not UTF-8 are shown as escapes. Pure."""
    return name.encode("utf-8", "backslashreplace").decode()


@contextmanager
def isolated(
    where: str, doing: str = "the file was read", *, passes: type[StreamwardenError] = ConfigError
) -> Iterator[None]:
    """Turns an unforeseen exception of the block into an UnforeseenError; the log has the traceback, at the level INFO,
    which Airflow's processes write and the command line does not.

    Args:
        where: the file, for the message.
        doing: what happened meanwhile, for the message.
        passes: errors that the caller foresees.
    """
    try:
        yield
    except passes:
        raise
    except Exception as error:
        _LOG.info("%s: %s while %s", where, type(error).__name__, doing, exc_info=error)
        raise UnforeseenError(
            f"{type(error).__name__} while {doing}: {show(str(error))}",
            expected="no exception, whatever the file holds; other files are not affected",
            where=where,
            next_step="look for an unusual value in the file and simplify it, and report this defect; the log of "
            "Airflow's dag-processor has the traceback",
        ) from error
