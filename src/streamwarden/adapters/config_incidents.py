"""The incidents of streams whose files change under them, brought up to date at each tick of the health."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from streamwarden.adapters.stream_incidents import ended

if TYPE_CHECKING:
    from streamwarden.adapters.config import Catalog
    from streamwarden.health.incident import IncidentBook


def follow_files(book: IncidentBook, catalog: Catalog, now: float) -> None:
    """Resolve what is open of streams without a file: nobody judges them any more. Raises StoreError.

    Args:
        catalog: all streams of the project.
        now: Unix seconds.
    """
    broken = {PurePath(file).stem for file in catalog.broken}
    for incident in book.open():
        if incident.stream not in catalog.streams and incident.stream not in broken:
            book.save(ended(incident, "the stream is no longer in config/streams", now))
