"""The base of the API's models. Most of them are derived from a dataclass, so that each field is declared once."""

import re
from collections.abc import Callable, Collection
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, TypeVar, get_type_hints

from pydantic import AfterValidator, AliasPath, BaseModel, ConfigDict, Field, create_model

from streamwarden.redaction import redacted_text

Text = Annotated[str, AfterValidator(redacted_text)]
"""What a person or a foreign system wrote: it is redacted when the model is made, once for all who ask."""


class Model(BaseModel):
    """A part of the API. It is made of anything that has its fields as attributes."""

    model_config = ConfigDict(frozen=True, from_attributes=True, use_attribute_docstrings=True)


T = TypeVar("T", bound=Model)


def derived(source: type, *, without: Collection[str] = (), at: str = "") -> Callable[[type[T]], type[T]]:
    """Give a model the fields of the dataclass `source` that it does not declare itself, described as there.

    Args:
        without: fields of `source` that the API does not show.
        at: the attribute that holds the instance of `source`; empty: the model is made of the instance itself.
    """

    def derive(model: type[T]) -> type[T]:
        hints, texts = get_type_hints(source, include_extras=True), field_texts(source)
        added: dict[str, Any] = {
            name: (
                hints[name],
                Field(description=texts.get(name), validation_alias=AliasPath(at, name) if at else None),
            )
            for name in hints
            if name not in {*without, *model.model_fields}
        }
        return create_model(model.__name__, __base__=model, __module__=model.__module__, __doc__=model.__doc__, **added)

    return derive


def field_texts(source: type) -> dict[str, str]:
    """Field of a dataclass -> its description in the section `Args:` of the docstring, or of that of a base."""
    bases = [base for base in reversed(source.__mro__) if is_dataclass(base)]
    return {name: text for base in bases for name, text in _own_texts(base).items()}


def _own_texts(source: type) -> dict[str, str]:
    _, _, section = (source.__doc__ or "").partition("Args:")
    names = "|".join(field.name for field in fields(source))
    parts = re.split(rf"(?:^|(?<=[.;])) ?((?:(?:{names}), )*(?:{names})): ", " ".join(section.split()))
    said = zip(parts[1::2], parts[2::2], strict=True)
    return {name: text.rstrip(" .;") for group, text in said for name in group.split(", ")}


def attributes(source: Any) -> dict[str, Any]:
    """The fields of a dataclass, for a model to which more is added. They are not copied."""
    return {field.name: getattr(source, field.name) for field in fields(source)}
