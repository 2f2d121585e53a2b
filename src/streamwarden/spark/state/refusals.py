"""Why a program on state has no answer, for the process that asked it."""

from streamwarden.errors import ConfigError, StreamwardenError
from streamwarden.lifecycle.time_travel.answers import Refused
from streamwarden.spark.internals.exceptions import said


def refused(error: StreamwardenError) -> Refused:
    """The command line or the state is not as it has to be."""
    return Refused(
        observed=error.observed,
        expected=error.expected,
        where=error.where,
        next_step=error.next_step,
        usage=isinstance(error, ConfigError),
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
