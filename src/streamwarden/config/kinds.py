"""The kinds of source and of sink as the schema library sees them: a union for each, told apart by `kind`."""

from collections.abc import Hashable, Mapping
from dataclasses import Field, field, fields, is_dataclass, make_dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from pydantic import Discriminator, Tag

from streamwarden import sinks, sources
from streamwarden.config.places import resolve
from streamwarden.drills.records.codec import ByKind
from streamwarden.errors import JobError
from streamwarden.lifecycle.job_files import has_build
from streamwarden.stream.spec import StreamSpec

T = TypeVar("T")

SIDES: Final[Mapping[str, Mapping[str, type[Any]]]] = {"source": sources.KINDS, "sink": sinks.KINDS}
"""The keys of a stream whose keys depend on their `kind`, and the dataclass of each kind."""


def kinds_of(spec: type[Any]) -> Mapping[str, Mapping[str, type[Any]]]:
    """The fields of a file's dataclass whose keys depend on their `kind`, and the dataclass of each kind."""
    return SIDES if spec is StreamSpec else _kinds_of(cast("Hashable", spec))


@cache
def _kinds_of(spec: Any) -> Mapping[str, Mapping[str, type[Any]]]:
    """Found once for each dataclass: each problem of a file asks for them."""
    hints = get_type_hints(spec, include_extras=True) if is_dataclass(spec) else {}
    return {name: by_kind.kinds for name, hint in hints.items() if (by_kind := _by_kind(hint)) is not None}


def declared(spec: type[T]) -> type[T]:
    """The dataclass as a file has it: each kind has its own keys."""
    members = [
        (item.name, _member(item, _union(kinds, required=spec is not StreamSpec)), field(default=item.default))
        for item in fields(cast("Any", spec))
        if (kinds := kinds_of(spec).get(item.name)) is not None
    ]
    return make_dataclass(spec.__name__, members, bases=(spec,), frozen=True, kw_only=True) if members else spec


def plain(spec: type[T], loaded: T) -> T:
    """The `spec` with the values of one of `declared`."""
    if type(loaded) is spec:
        return loaded
    return spec(**{item.name: getattr(loaded, item.name) for item in fields(cast("Any", spec))})


def _by_kind(hint: Any) -> ByKind | None:
    """The annotation of a field, of an optional field, or of the items of one."""
    if get_origin(hint) is Annotated:
        return next((extra for extra in hint.__metadata__ if isinstance(extra, ByKind)), None)
    return next((by_kind for part in get_args(hint) if (by_kind := _by_kind(part)) is not None), None)


def _member(key_field: Field[Any], union: Any) -> Any:
    """The type of a field that holds one of a union, may hold one, or holds several."""
    if key_field.default == ():
        return tuple[union, ...]
    return union | None if key_field.default is None else union


def _union(kinds: Mapping[str, type[Any]], *, required: bool) -> Any:
    members = tuple(Annotated[kind, Tag(name)] for name, kind in kinds.items())

    def tag(value: object) -> str | None:
        missing = required and not (isinstance(value, Mapping) and value.get("kind") is not None)
        return None if missing else kind_of(kinds, value)

    return Annotated[Union[members], Discriminator(tag)]  # noqa: UP007


def kind_of(kinds: Mapping[str, type[Any]], value: object) -> str:
    """The kind that a mapping names; the first of `kinds` if it names none."""
    return str(value.get("kind", next(iter(kinds)))) if isinstance(value, Mapping) else next(iter(kinds))


def keys_of_others(kinds: Mapping[str, type[Any]], value: object) -> frozenset[str]:
    """Keys that other kinds have and the kind of `value` has not."""
    own = kinds.get(kind_of(kinds, value))
    if own is None:
        return frozenset()
    return frozenset().union(*(_keys(cast("Hashable", kind)) for kind in kinds.values())) - _keys(cast("Hashable", own))


@cache
def _keys(kind: Any) -> frozenset[str]:
    return frozenset(item.name for item in fields(kind))


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
        side: {key: item for key, item in value[side].items() if key not in keys_of_others(SIDES[side], value[side])}
        for side in SIDES
        if side in value
    }
    return {**value, **sides}
