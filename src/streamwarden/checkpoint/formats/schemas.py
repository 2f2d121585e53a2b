"""State schema files: the fields of a store, by name.

Formats 1 and 2 are `_metadata/schema` in the store of partition 0 and hold one key and one value. Format 3, of
operators with column families (transformWithState, joins of state format 3), is `_stateSchema/STORE/BATCH_ID` of the
operator; the operator's metadata names the current file. It holds a name, a key and a value for each family: of
transformWithState these are its state variables, and what Spark keeps for timers and expiry (`$procTimers_…`).

Format 1: two strings. Format 2: for key and value each a count and so many strings to be joined. Format 3: a count;
then for each family its name, key and value as in format 2 with two bytes (a schema id) before each, and two more such
texts (how keys are encoded). A string is two bytes of length and UTF-8, as Java's DataOutput writes it.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from streamwarden.checkpoint.filesystem import Location, join
from streamwarden.checkpoint.formats.layout import STATE, Damaged, list_or_empty, parse_object, read_bytes
from streamwarden.checkpoint.formats.operators import OperatorMetadata
from streamwarden.checkpoint.formats.state import StateStore

SCHEMA: Final = "_metadata/schema"
FAMILIES: Final = "_stateSchema"
DEFAULT_FAMILY: Final = "default"
_FIELD: Final = frozenset({"name", "type", "nullable"})
_ATOMIC: Final = re.compile(
    "string|binary|boolean|byte|short|integer|long|float|double|date|timestamp(_ntz|_ltz)?|void|null|variant"
    r"|(decimal|char|varchar|time|geometry|geography)(\([^()]{0,40}\))?"
    r"|interval( [a-z]+)?( to [a-z]+)?|string collate \w+"
)
_NAME: Final = re.compile(r"([0-9]+)_.+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnFamily:
    """Args: key, value: their fields, as `name type`; kind: of a state variable: `ValueState`, `MapState, expires`…"""

    name: str
    key: tuple[str, ...]
    value: tuple[str, ...]
    kind: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSchema:
    """Args: path: below the checkpoint; version: format of the file; families: one, unless the format is 3."""

    store: str
    path: str
    version: int
    families: tuple[ColumnFamily, ...]


def schema_paths(
    checkpoint: Location, stores: Sequence[StateStore], metadata: OperatorMetadata | None
) -> dict[str, str]:
    """Store -> its schema file below the checkpoint, of the stores of one operator. A store may have none."""
    paths = {}
    for store in stores:
        if store.partition == 0 and SCHEMA in store.other:
            paths[store.name] = join(store.folder, SCHEMA)
    for operator in {store.operator for store in stores}:
        folder = join(STATE, str(operator), FAMILIES)
        for name in list_or_empty(checkpoint / folder):
            there = list_or_empty(checkpoint / folder / name)
            newest = _newest(there, metadata.schema_files if metadata else ())
            if newest is not None:
                paths[name] = join(folder, name, newest)
    return paths


def parse_schema(store: str, path: str, content: bytes) -> StateSchema:
    """Raises Damaged if the file is empty, cut off, or has an unknown format."""
    reader = _SchemaReader(content)
    version = reader.string()
    families: list[ColumnFamily]
    match version:
        case "v1":
            families = [_family(DEFAULT_FAMILY, reader.string(), reader.string())]
        case "v2":
            families = [_family(DEFAULT_FAMILY, reader.chunks(), reader.chunks())]
        case "v3":
            families = [_read_family(reader) for _ in range(reader.count())]
        case _:
            raise Damaged(f"it begins with {version[:20]!r}, not with a known version")
    return StateSchema(store=store, path=path, version=int(version[1:]), families=tuple(families))


def state_fields(checkpoint: Location, operator: int = 0) -> dict[int, frozenset[str]]:
    """Batch that changed the schema -> the fields (`VARIABLE.FIELD`) of the operator's values from that batch on.

    Only schemas of format 3 have a history. A batch that was cut and planned again may have two files, which are equal.
    Raises Damaged for a file that cannot be understood.
    """
    by_batch = {}
    folder = join(STATE, str(operator), FAMILIES)
    for store in list_or_empty(checkpoint / folder):
        for name in list_or_empty(checkpoint / folder / store):
            match = _NAME.fullmatch(name)
            if match is None:
                continue
            where = join(folder, store, name)
            schema = parse_schema(store, where, read_bytes(checkpoint / where))
            fields = [f"{family.name}.{field}" for family in schema.families for field in family.value]
            by_batch[int(match.group(1))] = frozenset(field.partition(" ")[0] for field in fields)
    return by_batch


def _newest(names: Sequence[str], named: Sequence[str]) -> str | None:
    """The file that the operator's metadata names last, or else the one of the newest batch."""
    if any(name in names for name in named):
        return [name for name in named if name in names][-1]
    batches = {int(match.group(1)): name for name in names if (match := _NAME.fullmatch(name))}
    return batches[max(batches)] if batches else None


def _read_family(reader: _SchemaReader) -> ColumnFamily:
    name = reader.string()
    reader.number(">h")
    key = reader.chunks()
    reader.number(">h")
    family = _family(name, key, reader.chunks())
    reader.chunks(), reader.chunks()
    return family


def _family(name: str, key: str, value: str) -> ColumnFamily:
    return ColumnFamily(name=name, key=_fields(key), value=_fields(value))


def _fields(schema: str) -> tuple[str, ...]:
    return tuple(f"{name} {kind}" for name, kind in _struct(parse_object(schema)))


def _struct(described: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Name and type of each field, as DDL. Raises Damaged for JSON that Spark refuses."""
    fields = described.get("fields")
    if set(described) != {"type", "fields"} or described["type"] != "struct" or not isinstance(fields, list):
        raise Damaged(f"it contains no schema: {str(described)[:60]!r}")
    return [_field(field) for field in fields]


def _field(described: Any) -> tuple[str, str]:
    if not isinstance(described, Mapping) or not _FIELD <= set(described) <= {*_FIELD, "metadata"}:
        raise Damaged(f"a field of its schema is damaged: {str(described)[:60]!r}")
    name, nullable, metadata = described["name"], described["nullable"], described.get("metadata", {})
    if not isinstance(name, str) or not isinstance(nullable, bool) or not isinstance(metadata, Mapping):
        raise Damaged(f"a field of its schema is damaged: {str(described)[:60]!r}")
    return name, _type(described["type"])


def _type(described: Any) -> str:
    """A type of Spark's JSON, as DDL. Raises Damaged for one that Spark does not know."""
    if isinstance(described, str) and _ATOMIC.fullmatch(described):
        return described
    match described:
        case {"type": "struct"}:
            return f"struct<{', '.join(f'{name}: {kind}' for name, kind in _struct(described))}>"
        case {"type": "array", "elementType": element, "containsNull": bool()}:
            return f"array<{_type(element)}>"
        case {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": bool()}:
            return f"map<{_type(key)}, {_type(value)}>"
        case {"type": "udt"}:
            return "udt"
        case _:
            raise Damaged(f"its schema has a type that Spark does not know: {str(described)[:60]!r}")


class _SchemaReader:
    """Reads consecutive values. Raises Damaged if the content is too short."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    def string(self) -> str:
        try:
            return self._take(self.number(">H")).decode("utf-8")
        except UnicodeDecodeError as error:
            raise Damaged("it is not UTF-8 text") from error

    def chunks(self) -> str:
        return "".join(self.string() for _ in range(self.count()))

    def count(self) -> int:
        """Number of strings or families that follow: each takes two bytes or more."""
        count = self.number(">i")
        if count < 0 or 2 * count > len(self._content) - self._at:
            raise Damaged("it is cut off")
        return count

    def number(self, shape: str) -> int:
        value: int = struct.unpack(shape, self._take(struct.calcsize(shape)))[0]
        return value

    def _take(self, size: int) -> bytes:
        taken = self._content[self._at : self._at + size]
        if len(taken) < size:
            raise Damaged("it is cut off" if self._content else "the file is empty")
        self._at += size
        return taken
