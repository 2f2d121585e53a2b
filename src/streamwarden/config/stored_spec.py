"""A stream's specification as JSON, and back. Each driver imports this: it brings no rule for files of people."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pydantic import ValidationError

from streamwarden.config.kinds import without_keys_of_others
from streamwarden.config.schema import load
from streamwarden.errors import ConfigError
from streamwarden.stream.spec import StreamSpec


def spec_to_dict(spec: StreamSpec) -> dict[str, Any]:
    """`spec` as JSON-like data, paths resolved: what `spec.json` of a driver holds."""
    return asdict(spec)


def spec_from_dict(value: Mapping[str, Any]) -> StreamSpec:
    """The inverse of `spec_to_dict`, with the same strictness. Raises ConfigError."""
    try:
        return load(StreamSpec, without_keys_of_others(value))
    except ValidationError as error:
        details = "; ".join(
            f"{'.'.join(str(part) for part in detail['loc'][1:])}: {detail['msg']}"
            for detail in error.errors(include_url=False, include_input=False)
        )
        raise ConfigError(
            f"the stored spec does not fit this version: {details}",
            where=str(value.get("name", "spec.json")),
            next_step="start the stream again from its YAML file",
        ) from error
