"""Implementations of the ports that faults declare. Each module of this folder lists its own in `OFFERS`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, Generic, TypeVar

from streamwarden.adapters.store import Store
from streamwarden.drills.ports import Port
from streamwarden.services.drilling.archive import DrillArchive
from streamwarden.stream.spec import StreamSpec

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """A drill's context. `stream`: the spec of a stream by name; raises ConfigError if there is none."""

    project: Path
    stream: Callable[[str], StreamSpec]
    store: Store
    archive: DrillArchive


@dataclass(frozen=True, slots=True)
class Offer(Generic[T]):
    """A port, and its implementation's factory."""

    port: Port[T]
    make: Callable[[Surroundings], T]


def implementations(surroundings: Surroundings) -> Mapping[Port[Any], object]:
    """The implementations that the modules of this folder offer, by their ports."""
    modules = [import_module(f"{__name__}.{info.name}") for info in iter_modules(__path__)]
    return {offer.port: offer.make(surroundings) for module in modules for offer in module.OFFERS}
