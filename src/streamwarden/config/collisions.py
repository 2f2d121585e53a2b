"""The rules between streams: places that two of them must not share, and which of the two keeps such a place; and
settings that the streams of a group have to share."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Final

from streamwarden.config.ownership import Claimant, Tenure, TenureOf, owner, without_history
from streamwarden.config.places import Place, locations
from streamwarden.errors import StoreError
from streamwarden.lifecycle.groups.rules import problems_across
from streamwarden.problems import KeyPath, Problem, show
from streamwarden.stream.spec import StreamSpec

_CLASHES: Final[Mapping[tuple[str, str], str]] = {
    ("checkpoint", "checkpoint"): "a separate checkpoint: two writers of one checkpoint destroy it",
    ("checkpoint", "sink"): "a checkpoint outside every output folder",
    ("checkpoint", "source"): "a checkpoint outside every input folder",
    ("checkpoint", "quarantine"): "a checkpoint outside every quarantine",
    ("sink", "sink"): "a separate output folder: two writers of one manifest lose rows",
    ("quarantine", "sink"): "a quarantine outside every output folder",
    ("checkpoint", "savepoints"): "savepoints outside every checkpoint",
    ("savepoints", "sink"): "savepoints outside every output folder",
    ("savepoints", "source"): "savepoints outside every input folder",
}
"""Locations of two streams that must be apart. An input inside an output is allowed: it is a chain of streams."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Use:
    """A path, table or topic that one stream's file names at one key.

    Args:
        title: what it is, in a message.
        shown: the value, as a message shows it.
        used_by: whether a driver that was started with a spec used the same place.
    """

    spec: StreamSpec
    key: KeyPath
    title: str
    shown: str
    used_by: Callable[[StreamSpec], bool]

    @property
    def file(self) -> str:
        return Path(self.spec.file).name


@dataclass(frozen=True, slots=True, kw_only=True)
class _Clash:
    """Two uses that exclude each other.

    Args:
        relation: of the first to the second, and of the second to the first, in words.
        allowed: what is allowed instead.
    """

    uses: tuple[_Use, _Use]
    relation: tuple[str, str]
    allowed: str


def rules_across(specs: Iterable[StreamSpec], tenure_of: TenureOf = without_history) -> dict[str, list[Problem]]:
    """Problems between streams, by stream. The owner of a place has none; without an owner both streams have one.

    The store is asked only about streams that clash. If it cannot answer, every clash is one without an owner.
    """
    specs = tuple(specs)
    tenures = _Tenures(tenure_of)
    problems = problems_across(specs)
    for clash in (*_shared_services(specs), *_shared_folders(specs)):
        keeper = owner(_claimant(use, tenures.of(use.spec.name)) for use in clash.uses)
        for use, other, relation in zip(clash.uses, reversed(clash.uses), clash.relation, strict=True):
            if keeper is None or keeper.stream != use.spec.name:
                problem = _problem(use, other, relation, clash.allowed, keeper, tenures.failure)
                problems.setdefault(use.spec.name, []).append(problem)
    return problems


class _Tenures:
    """Asks for each stream once."""

    def __init__(self, tenure_of: TenureOf) -> None:
        self.of = cache(self._of)
        self.failure: StoreError | None = None
        self._tenure_of = tenure_of

    def _of(self, stream: str) -> Tenure | None:
        if self.failure is None:
            try:
                return self._tenure_of(stream)
            except StoreError as error:
                self.failure = error
        return None


def _claimant(use: _Use, tenure: Tenure | None) -> Claimant:
    used = tenure is not None and (tenure.last is None or use.used_by(tenure.last))
    return Claimant(stream=use.spec.name, tenure=tenure if used else None)


def _problem(
    use: _Use, other: _Use, relation: str, allowed: str, keeper: Claimant | None, failure: StoreError | None
) -> Problem:
    observed = f"{use.shown} {relation} {other.title} of the stream {other.spec.name} ({other.file})"
    step = "change one of the two files"
    if keeper is not None and keeper.tenure is not None:
        verb = "runs" if keeper.tenure.runs else "has run"
        observed += (
            f", which owns it: it {verb} there, and its first driver was launched at {_day(keeper.tenure.since)}"
        )
        step = f"change `{_dotted(use.key)}` in {use.file}, or delete {use.file}; {other.spec.name} is not affected"
    elif failure is not None:
        observed += f"; which of the two has run there is not known ({failure})"
    return Problem(key=use.key, observed=observed, allowed=allowed, next_step=step)


def _dotted(key: KeyPath) -> str:
    return ".".join(map(str, key))


def _day(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"


def _shared_services(specs: Iterable[StreamSpec]) -> Iterator[_Clash]:
    """Streams that share a table or a topic in which nothing says which stream wrote a row.

    A table records only the number of a batch, and every stream has a batch of that number. A record of a micro-batch
    names its query. A record of real-time mode does not, so its topic must not have another writer.
    """
    writers: dict[tuple[str, str], list[StreamSpec]] = {}
    for spec in specs:
        if (address := _address(spec)) is not None:
            writers.setdefault(address, []).append(spec)
    for address, those in writers.items():
        for pair in combinations(those, 2):
            if not all(spec.sink.QUERY_IN_ROWS and spec.trigger.real_time is None for spec in pair):
                key = str(pair[0].sink.PLACE)
                yield _Clash(
                    uses=(_service_use(pair[0], address), _service_use(pair[1], address)),
                    relation=("is also", "is also"),
                    allowed=f"a separate {key}: otherwise nothing says which stream wrote a row",
                )


def _address(spec: StreamSpec) -> tuple[str, str] | None:
    """Address of the output if a service takes it: the connection, and the table or topic there."""
    connection, address = spec.sink.connection, spec.sink.address
    return None if connection is None or address is None else (connection, address)


def _service_use(spec: StreamSpec, address: tuple[str, str]) -> _Use:
    kind = str(spec.sink.PLACE)
    return _Use(
        spec=spec,
        key=("sink", kind),
        title=f"the {kind}",
        shown=show(spec.sink.place),
        used_by=lambda last: _address(last) == address,
    )


def _shared_folders(specs: Iterable[StreamSpec]) -> Iterator[_Clash]:
    """Each pair of folders of two streams that must be apart and are not."""
    by_place: dict[tuple[str, ...], list[tuple[_Use, Place]]] = {}
    for spec in specs:
        for key, path in locations(spec).items():
            place = Place.of(path)
            by_place.setdefault(place.parts, []).append((_folder_use(spec, key, path, place), place))
    for here in by_place.values():
        for use, place in here:  # look up each folder above instead of comparing every pair
            above = (entry for depth in range(len(place.parts)) for entry in by_place.get(place.parts[:depth], ()))
            for pair in ((use, place, *other) for other in above):
                yield from _clash(*pair)
        for (use, place), (other, same) in combinations(here, 2):
            yield from _clash(use, place, other, same)


def _clash(use: _Use, place: Place, other: _Use, its: Place) -> Iterator[_Clash]:
    first, second = sorted((_role(use.key), _role(other.key)))
    allowed = _CLASHES.get((first, second))
    if allowed is not None and use.spec.name != other.spec.name:
        yield _Clash(uses=(use, other), relation=(place.relation(its), its.relation(place)), allowed=allowed)


def _folder_use(spec: StreamSpec, key: KeyPath, path: str, place: Place) -> _Use:
    return _Use(
        spec=spec,
        key=key,
        title=_dotted(key),
        shown=show(path),
        used_by=lambda last: place in _places(last, _role(key)),
    )


def _places(spec: StreamSpec, role: str) -> frozenset[Place]:
    return frozenset(Place.of(path) for key, path in locations(spec).items() if _role(key) == role)


def _role(key: KeyPath) -> str:
    """Role of the location at `key`, as `_CLASHES` names it."""
    return "checkpoint" if key[0] == "queries" else str(key[0])
