"""Incidents of running streams whose files are broken. Each evaluation round updates them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from streamwarden.health.check_relations import CONFIGURATION, DRILL, EVERYWHERE
from streamwarden.health.incidents.stream_incidents import resolve
from streamwarden.health.verdict import Status, Verdict
from streamwarden.lifecycle.queries import owner
from streamwarden.services.incidents.incident_keeper import keep

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store
    from streamwarden.config.loading import Catalog
    from streamwarden.errors import ConfigError

_ADVICE: Final = (
    "fix the YAML file; `streamwarden validate` checks it. The running driver continues with the settings that it was "
    "started with, but it cannot be restarted"
)


def follow_files(store: Store, catalog: Catalog, runs: Callable[[str], bool], now: float) -> None:
    """Open an incident for each stream that runs and whose file is broken or gone, and resolve it when the file is
    correct again.

    The driver continues with the settings that it was started with, but no check evaluates it meanwhile. A stream
    without a driver gets no incident: the command or task that starts it reports the error. All incidents of a stream
    with neither a file nor a driver are resolved, because no check evaluates it any more. Raises StoreError.

    Args:
        catalog: all streams of the project.
        runs: whether a driver of the stream is alive.
        now: Unix seconds.
    """
    stems = {PurePath(file).stem: _broken(error) for file, error in catalog.broken.items()}  # a key has an extension
    broken = {stream: problem for stream, problem in stems.items() if stream not in catalog.streams}
    broken |= {stream: (error.observed, error.next_step) for stream, error in catalog.undeclared.items()}
    incidents = store.incidents.open()
    reported = {incident.stream for incident in incidents if incident.check == CONFIGURATION}
    bad = {stream: problem for stream, problem in broken.items() if stream in reported or runs(stream)}
    keep(store, _verdicts(bad, reported & catalog.streams.keys() - catalog.undeclared.keys(), now), now)
    for incident in incidents:
        # The incidents of drills follow the files of the drills.
        if owner(incident.stream) not in (EVERYWHERE, *catalog.streams, *broken) and not incident.check.startswith(
            DRILL
        ):
            store.incidents.save(resolve(incident, "the stream is no longer in config/streams", now))


def _broken(error: ConfigError) -> tuple[str, str]:
    return f"its file is broken, so no health check evaluates it: {error}", _ADVICE


def _verdicts(broken: dict[str, tuple[str, str]], correct: set[str], now: float) -> Iterator[Verdict]:
    for stream, (reason, advice) in broken.items():
        yield Verdict(stream=stream, check=CONFIGURATION, status=Status.WARNING, at=now, reason=reason, advice=advice)
    for stream in correct:
        reason = "its file is correct again"
        yield Verdict(stream=stream, check=CONFIGURATION, status=Status.OK, at=now, reason=reason)
