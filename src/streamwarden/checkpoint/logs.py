"""The offset log and the commit log of a checkpoint: the truth about which batches were planned and committed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPosition:
    """Where a query stands. A batch is planned when `offsets/N` exists and committed when `commits/N` does.

    Times are the files' modification times, Unix seconds; None where there is no such file.
    """

    query_id: str | None
    planned: int | None
    planned_at: float | None
    committed: int | None
    committed_at: float | None

    @property
    def gap(self) -> int:
        """Planned batches that are not committed: 0 between batches, 1 while one is running."""
        planned = -1 if self.planned is None else self.planned
        committed = -1 if self.committed is None else self.committed
        return planned - committed
