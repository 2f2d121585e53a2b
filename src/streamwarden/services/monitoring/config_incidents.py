"""Incidents of running streams whose files are broken. Each run of the health DAG updates them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from streamwarden.health.causes import CONFIGURATION, EVERYWHERE
from streamwarden.health.stream_incidents import open_incident, resolve
from streamwarden.health.verdict import Status
from streamwarden.lifecycle.queries import owner

if TYPE_CHECKING:
    from streamwarden.config.loading import Catalog
    from streamwarden.health.incident import IncidentRepository

_ADVICE: Final = (
    "fix the YAML file; `streamwarden validate` checks it. The running driver continues with the settings that it was "
    "started with, but it cannot be restarted"
)


def follow_files(repository: IncidentRepository, catalog: Catalog, runs: Callable[[str], bool], now: float) -> None:
    """Open an incident for each broken file of a stream that runs, and resolve it when the file is correct again.

    The driver continues with the settings that it was started with, but no check evaluates it meanwhile. A stream
    without a driver gets no incident: the command or task that starts it reports the error. All incidents of a stream
    without a file are resolved, because no check evaluates it any more. Raises StoreError.

    Args:
        catalog: all streams of the project.
        runs: whether a driver of the stream is alive.
        now: Unix seconds.
    """
    stems = {PurePath(file).stem: error for file, error in catalog.broken.items()}  # the key may have an extension
    broken = {stream: error for stream, error in stems.items() if stream not in catalog.streams}
    incidents = repository.open()
    open_already = {incident.stream for incident in incidents if incident.check == CONFIGURATION}
    for stream, error in broken.items():
        if stream in open_already or runs(stream):
            reason = f"its file is broken, so no health check evaluates it: {error}"
            open_incident(repository, stream, reason, _ADVICE, now, check=CONFIGURATION, status=Status.WARNING)
    for incident in incidents:
        stream = owner(incident.stream)
        if stream == EVERYWHERE:
            continue
        if stream in catalog.streams:
            if incident.check == CONFIGURATION:
                repository.save(resolve(incident, "its file is correct again", now))
        elif stream not in broken:
            repository.save(resolve(incident, "the stream is no longer in config/streams", now))
