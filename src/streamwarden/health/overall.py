"""The health of a stream: one status from the verdicts of its checks. Pure."""

from collections.abc import Iterable
from typing import Final

from streamwarden.health.checks import CHECKS
from streamwarden.health.verdict import Status, Verdict, worst_of

ESSENTIAL: Final = frozenset(check.name for check in CHECKS if check.essential)
"""Whether the stream lives, and whether its state and memory are seen."""


def overall(verdicts: Iterable[Verdict]) -> Status:
    """The worst alarm. Without one: UNKNOWN while an essential check or every check has no data, else OK.

    The other checks need rows or history that a quiet or a young stream does not have. If their UNKNOWN counted, such
    a stream would never be OK, and the person on call would learn to ignore UNKNOWN.
    """
    return worst_of(
        verdict.status for verdict in verdicts if verdict.status is not Status.UNKNOWN or verdict.check in ESSENTIAL
    )
