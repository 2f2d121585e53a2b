"""The incidents of streams whose files change under them, brought up to date at each tick of the health."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from streamwarden.health.stream_incidents import CONFIGURATION, open_incident, resolve
from streamwarden.health.verdict import Status
from streamwarden.lifecycle.queries import owner

if TYPE_CHECKING:
    from streamwarden.config.loading import Catalog
    from streamwarden.health.incident import IncidentRepository

_ADVICE: Final = (
    "mend the YAML file; `streamwarden validate` tells whether it is right. A driver that runs goes on as it was "
    "started, but would not be started again"
)


def follow_files(book: IncidentRepository, catalog: Catalog, runs: Callable[[str], bool], now: float) -> None:
    """Open an incident for each broken file of a stream that runs, and resolve it when the file is right again.

    A driver goes on with what it was started with, and no check looks at it meanwhile. That a stream without a driver
    cannot be started is the matter of whoever starts it. All incidents of a stream without a file are resolved, for
    nobody judges it any more. Raises StoreError.

    Args:
        catalog: all streams of the project.
        runs: tells whether a driver of the stream lives.
        now: Unix seconds.
    """
    stems = {PurePath(file).stem: error for file, error in catalog.broken.items()}  # the key may have an extension
    broken = {stream: error for stream, error in stems.items() if stream not in catalog.streams}
    known = book.open()
    told = {incident.stream for incident in known if incident.check == CONFIGURATION}
    for stream, error in broken.items():
        if stream in told or runs(stream):
            reason = f"its file is broken, so no health check looks at it: {error}"
            open_incident(book, stream, reason, _ADVICE, now, check=CONFIGURATION, status=Status.WARNING)
    for incident in known:
        stream = owner(incident.stream)
        if stream in catalog.streams:
            if incident.check == CONFIGURATION:
                book.save(resolve(incident, "its file is right again", now))
        elif stream not in broken:
            book.save(resolve(incident, "the stream is no longer in config/streams", now))
