"""The names in the folder of a captured output: see `spark.captures`, which writes it."""

import re
from typing import Final

AGAIN: Final = "_again"
"""The folder of the attempts that a later execution of their batch replaced."""

WRITES: Final = "_writes"
"""The folder of the files that the script's own function wrote, if it ran."""

_ATTEMPT: Final = re.compile(r"batch_id=(\d+)\.(\d+)")


def batch_name(batch: int) -> str:
    """The folder of the newest execution of a batch."""
    return f"batch_id={batch}"


def attempt_name(batch: int, attempt: int) -> str:
    """Folder of an earlier execution of a re-run batch, under `AGAIN`."""
    return f"{batch_name(batch)}.{attempt}"


def attempt_of(name: str) -> int | None:
    """The batch of an earlier attempt; None for any other name."""
    match = _ATTEMPT.fullmatch(name)
    return int(match[1]) if match else None
