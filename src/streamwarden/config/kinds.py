"""The kinds of source and of sink as the schema library sees them: a union for each, told apart by `kind`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields, make_dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Union

from pydantic import Discriminator, Tag

from streamwarden import sinks, sources
from streamwarden.config.paths import resolve
from streamwarden.errors import JobError
from streamwarden.lifecycle.job_files import has_build
from streamwarden.stream.spec import StreamSpec

SIDES: Final[Mapping[str, Mapping[str, type[Any]]]] = {"source": sources.KINDS, "sink": sinks.KINDS}
"""The keys of a stream whose keys depend on their `kind`, and the dataclass of each kind."""


def declared_stream() -> type[StreamSpec]:
    """StreamSpec as a file has it: each kind of source and of sink has its own keys."""
    sides = [(side, _union(kinds), field()) for side, kinds in SIDES.items()]
    return make_dataclass("StreamSpec", sides, bases=(StreamSpec,), frozen=True, kw_only=True)


def plain(declared: StreamSpec) -> StreamSpec:
    """The StreamSpec with the values of one of `declared_stream`."""
    return StreamSpec(**{each.name: getattr(declared, each.name) for each in fields(StreamSpec)})


def _union(kinds: Mapping[str, type[Any]]) -> Any:
    members = tuple(Annotated[kind, Tag(name)] for name, kind in kinds.items())
    return Annotated[Union[members], Discriminator(lambda value: kind_of(kinds, value))]  # noqa: UP007


def kind_of(kinds: Mapping[str, type[Any]], value: object) -> str:
    """The kind that a mapping names; the first of `kinds` if it names none."""
    return str(value.get("kind", next(iter(kinds)))) if isinstance(value, Mapping) else next(iter(kinds))


def keys_of_others(side: str, value: object) -> frozenset[str]:
    """Keys of a source or a sink that other kinds have and the kind of `value` has not."""
    own = SIDES[side].get(kind_of(SIDES[side], value))
    known = {each.name for kind in SIDES[side].values() for each in fields(kind)}
    return frozenset(known - {each.name for each in fields(own)}) if own is not None else frozenset()


def leave_to_script(value: dict[str, Any], project: Path) -> None:
    """Set the kind `script` for the source and the sink that the file of a script leaves out: the script has its own.

    A job with `build` has to declare both. Of a job that does not exist, only its path is reported.
    """
    job, missing = value.get("job"), [side for side in SIDES if side not in value]
    if missing and isinstance(job, str) and not _builds(Path(resolve(job, project))):
        value.update({side: {"kind": "script"} for side in missing})


def _builds(job: Path) -> bool:
    """Whether the job has a `build`, or may have one: a reason that may pass prevents reading it."""
    try:
        return has_build(job)
    except JobError:
        return False
    except (OSError, ValueError):
        return True


def without_keys_of_others(value: Mapping[str, Any]) -> dict[str, Any]:
    """A stored stream without the keys of other kinds, which earlier versions stored with every kind."""
    sides = {
        side: {key: item for key, item in value[side].items() if key not in keys_of_others(side, value[side])}
        for side in SIDES
        if side in value
    }
    return {**value, **sides}
