"""From the JSON of a row back to the types that its columns had.

JSON has fewer types than rows have. A value is taken for an instant, a date, bytes or a decimal where the oracle's
value of that column is one. A value that cannot be read as that type stays as it is: then it is a wrong one.
"""

import base64
import json
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Final

from streamwarden.sinks.output_types import json_types
from streamwarden.verification.comparing.column_types import ColumnType, sample

JSON: Final = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "timeZone": "UTC",
    "ignoreNullFields": "false",
}
"""Options of Spark's JSON, by which no value loses digits. An event's id depends on them, so that none is left to the
session."""


def parse_object(value: bytes) -> dict[str, object]:
    """The columns of a row. A value that is no JSON object is a row of one column that no oracle expects."""
    try:
        parsed = json.loads(value, parse_float=Decimal)
    except ValueError:
        parsed = None
    return parsed if isinstance(parsed, dict) else {"(no object)": value.decode(errors="replace")}


def types_of(objects: Iterable[Mapping[str, object]]) -> dict[str, tuple[ColumnType, ...]]:
    """Each column with the types that its values can be of."""
    types: dict[str, set[ColumnType]] = {}
    for item in objects:
        for name, value in item.items():
            types.setdefault(name, set()).update(json_types(value))
    return {name: sorted_types(kinds) for name, kinds in types.items()}


def sorted_types(kinds: Iterable[ColumnType]) -> tuple[ColumnType, ...]:
    """In the order of their texts."""
    return tuple(sorted(kinds, key=lambda kind: kind.shown))


def typed(value: object, like: object) -> object:
    """`value`, from JSON, as the type of `like`; as it is if it is none."""
    if isinstance(value, list) and isinstance(like, (list, tuple)):
        element = sample(like)
        return [typed(item, element) for item in value]
    if isinstance(value, dict) and isinstance(like, dict):
        return {name: typed(item, like.get(name)) for name, item in value.items()}
    try:
        return _scalar(value, like)
    except ValueError:
        return value


def _scalar(value: object, like: object) -> object:
    if isinstance(value, str):
        if isinstance(like, datetime):
            return datetime.fromisoformat(value)
        if isinstance(like, date):
            return date.fromisoformat(value)
        if isinstance(like, bytes):
            return base64.b64decode(value, validate=True)
        if isinstance(like, float):
            return float(value)  # NaN and the infinities are texts in JSON
    if isinstance(value, Decimal) and isinstance(like, float):
        return float(value)
    if isinstance(value, int) and not isinstance(value, bool) and isinstance(like, (float, Decimal)):
        return type(like)(value)
    return value
