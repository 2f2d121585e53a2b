"""The reference of a savepoint's manifest, from the type that it is written from, and its JSON schema."""

from __future__ import annotations

import json
from typing import Any, Final

from reference_pages.fields import meaning
from streamwarden.lifecycle.savepoints.savepoint import SavedFile, SavedOperator, SavedText, Savepoint, SinkPosition
from streamwarden.services.savepoints.documents import schema

_HEAD: Final = """\
# The manifest of a savepoint

`savepoint.json` in the folder of [a savepoint](../how-to/savepoints.md) says what was saved. It is written last: a
folder without it is not a savepoint. [`savepoint.schema.json`](savepoint.schema.json) is its JSON schema.
"""

_PARTS: Final = {
    "The document": Savepoint,
    "Each of `files`": SavedFile,
    "Each of `operators`": SavedOperator,
    "`sink`": SinkPosition,
    "`job` and `declaration`": SavedText,
}


def page() -> str:
    """The whole page, in Markdown."""
    document = schema()
    kinds = {**document["$defs"], "Savepoint": document}
    return _HEAD + "".join(
        f"\n## {title}\n\n{_table(kind, kinds[kind.__name__]['properties'])}" for title, kind in _PARTS.items()
    )


def schema_file() -> str:
    """The JSON schema."""
    return json.dumps(schema(), indent=2) + "\n"


def _table(kind: type, properties: dict[str, Any]) -> str:
    rows = [f"| `{name}` | {_type(described)} | {meaning(kind, name)} |" for name, described in properties.items()]
    return "\n".join(["| key | type | meaning |", "|---|---|---|", *rows]) + "\n"


def _type(described: dict[str, Any]) -> str:
    if "anyOf" in described:
        return " or ".join(map(_type, described["anyOf"]))
    if "$ref" in described:
        return "object"
    if described["type"] == "array":
        return "list of objects" if "$ref" in described["items"] else f"list of {_type(described['items'])}"
    words = {
        "string": "text",
        "integer": "whole number",
        "boolean": "true or false",
        "object": "object",
        "null": "null",
    }
    return "time, ISO 8601" if described.get("format") == "date-time" else words[described["type"]]
