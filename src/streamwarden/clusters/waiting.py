"""What an application waits for, as the manager of its cluster describes it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """An application that its cluster does not let run yet.

    Args:
        what: completes "it waits for": `resources in queue etl`.
        said: the manager's own words; empty if it says nothing.
    """

    what: str
    said: str = ""

    @property
    def words(self) -> str:
        """`resources in queue etl (the manager's words)`."""
        return f"{self.what} ({self.said})" if self.said else self.what
