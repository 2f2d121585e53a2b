"""Why a program on state has no answer, for the process that asked it."""

from streamwarden.errors import ConfigError
from streamwarden.lifecycle.time_travel.answers import Refused
from streamwarden.spark.internals.exceptions import said


def refused(error: ConfigError) -> Refused:
    """The command line is wrong."""
    return Refused(
        observed=error.observed, expected=error.expected, where=error.where, next_step=error.next_step, usage=True
    )


def failed(error: Exception, where: str) -> Refused:
    """Spark raised this. where: the part of the state."""
    return Refused(
        observed=f"Spark cannot read the state: {type(error).__name__}: {said(error)}",
        expected="whole state files, in a format that this Spark reads",
        where=where,
        next_step="run `streamwarden inspect` on the checkpoint, or look at another batch",
        usage=False,
    )
