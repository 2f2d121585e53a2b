"""The drill engine with every port bound to the real thing."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from streamwarden.adapters.jvm.environments import environment_of
from streamwarden.adapters.store import Store
from streamwarden.drills.engine import Engine
from streamwarden.drills.ports import Ports, SpecCodec
from streamwarden.drills.spec import DrillSpec
from streamwarden.errors import ConfigError
from streamwarden.services.drilling.archive import DrillArchive, SystemClock
from streamwarden.services.drilling.checkpoint import ForkCheckpoint
from streamwarden.services.drilling.drivers import ForkDrivers
from streamwarden.services.drilling.forks import DrillForks
from streamwarden.services.drilling.judging import ExpectationsJudge, ForkHealth, ForkVerifier
from streamwarden.services.drilling.listing import Around
from streamwarden.services.drilling.live import LiveStreams
from streamwarden.services.drilling.ports import Surroundings, implementations
from streamwarden.services.drilling.ports.driver_clock import ForkClock
from streamwarden.services.drilling.ports.driver_spark import ForkSpark
from streamwarden.services.fleet.fleet import Fleet
from streamwarden.services.fleet.launching.deployed_code import code_of
from streamwarden.services.forks.spec_storage import StoredSpecs
from streamwarden.services.monitoring.health_monitor import HealthMonitor
from streamwarden.stream.spec import StreamSpec


def build_engine(
    drills: Mapping[str, DrillSpec],
    *,
    stream: Callable[[str], StreamSpec],
    streams: Callable[[], Iterable[StreamSpec]],
    store: Store,
    fleet: Fleet,
    health_monitor: HealthMonitor,
    project: Path,
    data: Path,
    paused: Callable[[str], bool | None] = lambda stream: None,
) -> Engine:
    """The engine over a project's valid drills.

    Args:
        stream: the production stream's spec by name; raises ConfigError if it does not exist.
        streams: all valid ones.
        data: absolute data folder; the folders of the drills are below it.
        paused: whether the DAG of a stream is paused; None: unknown. Only a drill on a live stream asks.
    """
    archive = DrillArchive(data, runs_in=lambda name: environment_of(stream(name).spark))
    specs = StoredSpecs(stream)
    ports = Ports(
        forks=DrillForks(archive, stream, Around(streams, store)),
        live=LiveStreams(store, fleet, data, stream, paused),
        drivers=ForkDrivers(fleet, store, ForkClock(archive), ForkSpark(archive)),
        checkpoint=ForkCheckpoint(store),
        health=ForkHealth(health_monitor),
        verifier=ForkVerifier(store, stream, archive),
        judge=ExpectationsJudge(),
        archive=archive,
        clock=SystemClock(),
        specs=SpecCodec(read=specs.read, write=specs.write),
        code=lambda name: _code(name, stream),
        of_faults=implementations(Surroundings(project=project, stream=stream, store=store, archive=archive)),
    )
    return Engine(drills, store.journals, ports)


def _code(name: str, stream: Callable[[str], StreamSpec]) -> Mapping[str, str]:
    try:
        files: Mapping[str, str] = code_of(stream(name))["files"]
    except ConfigError:  # the step that needs the stream reports it
        return {}
    return files
