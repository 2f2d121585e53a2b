"""The parameter `fields`: which parts of an answer a program wants. Pure.

A field is named by its path: `streams.forecast.seconds`. A path goes through lists, into each of their items. What may
be named is what the OpenAPI document says of the answer.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from streamwarden.errors import ConfigError

Schema = Mapping[str, Any]
Wanted = dict[str, "Wanted"]
"""Name of a field -> what is wanted below it; empty: all of it."""

PARAMETER: Final = "fields"
_REF: Final = "#/components/schemas/"


@dataclass(frozen=True, slots=True)
class Shape:
    """What an answer can have, from its schema.

    Args:
        schema: of the answer; components: the schemas that it refers to, by name.
    """

    schema: Schema
    components: Mapping[str, Schema]

    def below(self) -> "dict[str, Shape] | None":
        """The fields of the object, or of the items of the list; None: any name may be one. Empty: a plain value."""
        found: dict[str, Shape] = {}
        for schema in self._alternatives(self.schema):
            if "items" in schema:
                inner = Shape(schema["items"], self.components).below()
                if inner is None:
                    return None
                found |= inner
            elif schema.get("type") == "object" and "properties" not in schema:
                return None
            found |= {name: Shape(each, self.components) for name, each in schema.get("properties", {}).items()}
        return found

    def _alternatives(self, schema: Schema) -> Iterable[Schema]:
        """The schema without references, or each of those of which it is one."""
        if "$ref" in schema:
            yield from self._alternatives(self.components[schema["$ref"].removeprefix(_REF)])
        elif "anyOf" in schema or "oneOf" in schema or "allOf" in schema:
            for each in schema.get("anyOf") or schema.get("oneOf") or schema["allOf"]:
                yield from self._alternatives(each)
        else:
            yield schema


def wanted(text: str, shape: Shape) -> Wanted:
    """The fields that `text` names, separated by commas. Raises ConfigError if the answer has no such field."""
    found: Wanted = {}
    for path in (part.strip() for part in text.split(",") if part.strip()):
        _add(found, path, shape)
    return found


def _add(found: Wanted, path: str, shape: Shape) -> None:
    """Raises ConfigError."""
    here: Shape | None = shape
    for name in path.split("."):
        known = here.below() if here is not None else None
        if known is not None and name not in known:
            raise _unknown(path, name, sorted(known))
        here = known[name] if known is not None else None
        found = found.setdefault(name, {})


def _unknown(path: str, name: str, known: Sequence[str]) -> ConfigError:
    return ConfigError(
        f"the answer has no field {path!r}",
        expected=f"in the place of {name!r} one of: {', '.join(known)}" if known else f"nothing below {path!r}",
        where=PARAMETER,
        next_step="name the fields that the operation has in /streamwarden/api/v1/docs, separated by commas",
    )


def picked(content: Any, fields: Wanted) -> Any:
    """The wanted fields of an object, or of each item of a list; all of it if none is named."""
    if isinstance(content, list):
        return [picked(item, fields) for item in content]
    if not fields or not isinstance(content, dict):
        return content
    return {name: picked(content[name], below) for name, below in fields.items() if name in content}
