"""Deletes keys from the state of a stopped stream."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from streamwarden.adapters.storage.files import checkpoint_of
from streamwarden.lifecycle.surgery.rewriting import Found, Keys
from streamwarden.lifecycle.surgery.soundness import require_found
from streamwarden.lifecycle.time_travel.tables import StateTable
from streamwarden.services.savepoints.saved import Savepoints
from streamwarden.services.state.gathering import held
from streamwarden.services.state.rewriting import Place
from streamwarden.services.state.surgery import Operated, Surgery
from streamwarden.stream.spec import StreamSpec
from streamwarden.units import format_count


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """What is asked for. `operator`: None: the only one."""

    keys: Keys
    operator: int | None = None

    def subject(self, stream: str) -> str:
        """What the records call it: without the keys, which are deleted."""
        of = "" if self.operator is None else f" of operator {self.operator}"
        return f"deletion of keys{of}, {self.keys.digest(stream)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """The keys that a state has. `operator`: one of its stores; batch: the state is that after it."""

    operator: StateTable
    batch: int
    found: Found


Deleted = Operated[Counted]


def count(spec: StreamSpec, wanted: Deletion) -> Counted:
    """What a deletion would take out of the state after the newest committed batch; it changes nothing, and the stream
    may be running.

    Raises:
        CheckpointError: the state has no such key, or cannot be rewritten.
        ConfigError: the keys or the operator cannot be named so.
        ProcessError: there is no usable Java, or the reading process died.
    """
    with held(spec) as state:
        batch = state.batch(None)
        place = Place.of(spec, state.logs.checkpoint, state.layout, batch).with_operator(wanted.operator)
        done = place.ask(state.folder, wanted.keys, state.for_reading((batch,)))
    require_found(done.found, spec.checkpoint)
    return _counted(place, done.found)


def copies(spec: StreamSpec) -> tuple[tuple[str, ...], tuple[Path, ...]]:
    """What may still have a key that was deleted: the stream's savepoints, and its previous checkpoints beside it."""
    checkpoint = Path(checkpoint_of(spec).path)
    before = sorted(checkpoint.parent.glob(f"{checkpoint.name}.before-*"))
    return tuple(Savepoints.of(spec).ids()), tuple(before)


class _Surgery(Surgery[Deletion, Counted]):
    __slots__ = ()
    command: ClassVar = "delete"

    @classmethod
    def place_of(cls, spec: StreamSpec, wanted: Deletion) -> Place:
        return Place.stopped(spec).with_operator(wanted.operator)

    def write(self, path: str) -> Counted:
        return _counted(self.place, self.place.rewrite(path, self.wanted.keys))

    def amount(self, changed: Counted) -> str:
        return f"{format_count(changed.found.keys, 'key')} with {format_count(changed.found.rows, 'row')}"


delete: Final = _Surgery.operate
"""Deletes keys from the state of a stopped stream, or completes a deletion that was killed."""


def _counted(place: Place, found: Found) -> Counted:
    assert place.operator is not None  # it has the keys
    return Counted(operator=place.operator, batch=place.batch, found=found)
