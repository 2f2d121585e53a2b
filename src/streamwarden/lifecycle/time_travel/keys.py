"""How a person names a key: `FIELD=VALUE`, or the value alone if the key has one field."""

from collections.abc import Sequence

from streamwarden.errors import ConfigError


def wanted_fields(given: Sequence[str], fields: Sequence[str]) -> dict[int, str]:
    """Position of a key's field -> the text that it has to have. Fields that are not named may have any value.

    Args:
        given: values of `--key`.
        fields: names of the key's fields, those within a struct as `window.start`.

    Raises ConfigError, with the fields of the key.
    """
    wanted = {}
    for text in given:
        name, equals, value = text.partition("=")
        if equals and name in fields:
            wanted[fields.index(name)] = value
        elif len(fields) == 1:
            wanted[0] = text
        else:
            raise ConfigError(
                f"{text!r} names no field of the key",
                expected=f"FIELD=VALUE, where FIELD is one of {', '.join(fields) or 'none: the key has no field'}",
                where="--key",
                next_step="name one field, or several by several --key; `state show` without a key shows how values "
                "are written",
            )
    return wanted
