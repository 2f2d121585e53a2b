"""What a query joins its streams with: rows of files or of a service, which the audit reads as they are now.

The books of a query are true only if these are the rows that the query read. Of files their times show it. Of any
other place nothing does, so books that do not balance prove nothing there. Rows that the job makes itself are part of
the job.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from streamwarden.spark.audit.context import Audited
from streamwarden.spark.audit.plan import CannotBalance, kind
from streamwarden.spark.internals import plans

_OF_THE_JOB: Final = frozenset({"LocalRelation", "LogicalRDD", "OneRowRelation", "Range"})
"""Relations whose rows the job makes."""


def require_unchanged(audited: Audited) -> None:
    """Raises CannotBalance if files beside the streams were changed after the first audited batch was planned."""
    began = int(audited.request["began_ms"])
    for leaf in plans.static_leaves(audited.streaming):
        for folder in plans.folders_of(leaf) or ():
            at, name = plans.newest_change(audited.catalyst.spark, folder)
            if at > began:
                changed = f"{name} was changed at {datetime.fromtimestamp(at / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
                raise CannotBalance(
                    f"the query joins its stream with {folder}, and {changed}, after batch {audited.after + 1} was "
                    "planned: it is unknown what the batches read of it"
                )


def unknown_sides(audited: Audited) -> Iterator[str]:
    """The relations beside the streams that may have changed since, unseen."""
    for leaf in plans.static_leaves(audited.streaming):
        if kind(leaf) not in _OF_THE_JOB and plans.folders_of(leaf) is None:
            yield kind(leaf.relation()) if kind(leaf) == "LogicalRelation" else _name(leaf)


def _name(leaf: Any) -> str:
    return str(leaf.simpleString(25)).strip()
