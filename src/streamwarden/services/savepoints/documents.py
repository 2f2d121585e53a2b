"""Reads and writes the manifest of a savepoint, and its JSON schema."""

import json
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from streamwarden.checkpoint.filesystem import Location
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.savepoints.savepoint import FORMAT, MANIFEST, Savepoint


def write_manifest(place: Location, savepoint: Savepoint) -> None:
    """Make the folder a savepoint. Raises OSError."""
    (place / MANIFEST).write(_adapter().dump_json(savepoint, indent=1) + b"\n")


def read_manifest(place: Location) -> Savepoint:
    """The manifest in a savepoint's folder. Raises CheckpointError if it is damaged or too new, OSError."""
    content = (place / MANIFEST).read()
    try:
        document = json.loads(content)
        written = document["format"]
        if isinstance(written, int) and written > FORMAT:
            raise _too_new(place, written)
        return _adapter().validate_json(content)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damaged(place, error) from error


def document(savepoint: Savepoint) -> dict[str, Any]:
    """The manifest as JSON-like data."""
    return dict(_adapter().dump_python(savepoint, mode="json"))


def schema() -> dict[str, Any]:
    """The JSON schema of the manifest."""
    return _adapter().json_schema(mode="serialization")


@cache
def _adapter() -> TypeAdapter[Savepoint]:
    return TypeAdapter(Savepoint)


def _damaged(place: Location, error: Exception) -> CheckpointError:
    what = error.errors(include_url=False)[0]["msg"] if isinstance(error, ValidationError) else str(error)
    return CheckpointError(
        f"the manifest of the savepoint is damaged: {what}",
        expected="the document that `streamwarden savepoint create` wrote",
        where=(place / MANIFEST).path,
        next_step="restore this file from a copy of the savepoint, or delete the savepoint",
    )


def _too_new(place: Location, written: int) -> CheckpointError:
    return CheckpointError(
        f"the manifest of the savepoint has format {written}",
        expected=f"a format up to {FORMAT}, which this version of Streamwarden knows",
        where=(place / MANIFEST).path,
        next_step="use the version of Streamwarden that wrote it, or a later one",
    )
