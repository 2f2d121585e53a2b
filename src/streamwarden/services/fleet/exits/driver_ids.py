"""The id of a driver, and the folder that it names."""

import secrets
import time
from pathlib import Path

from streamwarden.errors import ProcessError
from streamwarden.stream.spec import NAME_PATTERN


def new_driver_id(stream: str, now: float) -> str:
    """`flight_departures-20260102T030405-9f86d081`: sorts by time, unique, safe in a path."""
    return f"{stream}-{time.strftime('%Y%m%dT%H%M%S', time.gmtime(now))}-{secrets.token_hex(4)}"


def stream_of(driver_id: str) -> str:
    """The stream in a driver id. Raises ProcessError for anything that is not a driver id (it may come from a URL)."""
    stream = driver_id.rsplit("-", 2)[0]
    if not NAME_PATTERN.fullmatch(stream) or "/" in driver_id or ".." in driver_id:
        raise ProcessError(
            f"{driver_id!r} is not a driver id", expected="STREAM-TIME-HEX", next_step="correct the driver id"
        )
    return stream


def driver_folders(data: Path, stream: str) -> Path:
    """The folder that holds the folders of a stream's drivers."""
    return data / "drivers" / stream
