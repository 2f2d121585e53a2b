"""The functions of foreachBatch of which a drill does not show whether they write a batch twice. Pure.

Only a batch that runs again after its function has written it shows that.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from streamwarden.units import format_list


@dataclass(frozen=True, slots=True, kw_only=True)
class NotExercised:
    """A function that got no batch again after it had written it.

    Args:
        what: the function, or the output, in words.
        called: the fork called it; a capture may have been in its place.
        appends: what it writes does not depend on the batch's id, as lint reads its text: one that runs again is
            written twice.
    """

    what: str
    called: bool = True
    appends: bool = False


def describe_not_exercised(functions: Sequence[NotExercised]) -> str | None:
    """What the run does not show, in words; None: nothing."""
    if not functions:
        return None
    named = format_list(function.what for function in functions)
    return f"not exercised: whether {named} writes a batch twice, since it got no batch again after it had written it"


def unprovable(functions: Sequence[NotExercised]) -> str | None:
    """Why exactly-once cannot be proven, although no row differs; None: nothing speaks against it."""
    found = next((function for function in functions if function.appends), None)
    if found is None:
        return None
    drill = (
        "drill it with `moment: after_handover`, so that a batch runs again after it was written"
        if found.called
        else "drill it with `foreach_batch: run`, so that it gets a batch again"
    )
    return (
        f"exactly-once cannot be proven: not exercised: {found.what}, which writes without the batch's id by lint "
        "SW109, so that a batch which runs again would be in its output twice. Let it write by the batch's id, or "
        f"{drill}"
    )
