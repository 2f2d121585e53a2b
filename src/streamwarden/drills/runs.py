"""Ids of drill runs. An id becomes a folder, a key of the store and a part of the fork's name."""

import re
import secrets
import time
from typing import Final

from streamwarden.errors import DrillError

RUN_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,119}")


def new_run_id(drill: str, now: float) -> str:
    """`kill_driver-20260131T120000-9f3a1c`: sorts by time within a drill."""
    return f"{drill}-{time.strftime('%Y%m%dT%H%M%S', time.gmtime(now))}-{secrets.token_hex(3)}"


def new_seed() -> int:
    """A random seed, for a drill that asks for a new one in each run."""
    return secrets.randbelow(2**31)


def check_run_id(run_id: str) -> str:
    """The id itself; raises DrillError for one that is not a safe path."""
    if RUN_ID.fullmatch(run_id) is None:
        raise DrillError(
            f"{run_id!r} is not the id of a drill run",
            expected=f"a name that matches {RUN_ID.pattern}",
            next_step="list the runs with `streamwarden drill list`",
        )
    return run_id
