"""Find the changed fields of a job's state in Spark's refusal of the change, which prints both schemas. Pure."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

_BEFORE: Final = re.compile(r"(?:(?:old|Existing) (key|value)_schema|oldSchema)=(?=StructType\()")
_AFTER: Final = re.compile(r"(?:new (?:key|value)_schema|newSchema)=(?=StructType\()")
_NAMES: Final = {
    "IntegerType": "INT",
    "LongType": "BIGINT",
    "ShortType": "SMALLINT",
    "ByteType": "TINYINT",
}


_WIDENED: Final = {
    "TINYINT": ("INT", "BIGINT", "FLOAT", "DOUBLE"),
    "SMALLINT": ("INT", "BIGINT", "FLOAT", "DOUBLE"),
    "INT": ("BIGINT", "FLOAT", "DOUBLE"),
    "BIGINT": ("FLOAT", "DOUBLE"),
    "FLOAT": ("DOUBLE",),
}
"""What Avro reads as a wider type (its specification: schema resolution)."""


def state_change(message: str) -> str | None:
    """`the state's field shop is STRING in the checkpoint and INT in the job`; None: there is no such change.

    A field of a field is written `outer.inner`. Of Avro-encoded state only what Avro does not allow is reported.
    """
    before, after = _BEFORE.search(message), _AFTER.search(message)
    if before is None or after is None:
        return None
    old, new = dict(_fields(message[before.end() :])), dict(_fields(message[after.end() :]))
    changes = [*_changed(old, new), *_missing(old, new, "the job"), *_missing(new, old, "the checkpoint")]
    if "INVALID_VALUE_SCHEMA_EVOLUTION" in message:  # Spark's error condition, which its message quotes
        allowed = {name for name, kind in old.items() if new.get(name) in _WIDENED.get(kind, ())}
        changes = _changed({name: kind for name, kind in old.items() if name not in allowed}, new) or changes
    if not changes and list(old) != list(new):
        changes = [f"order is {', '.join(old)} in the checkpoint and {', '.join(new)} in the job"]
    what = "key" if before.group(1) == "key" else "state"
    return f"the {what}'s {'; '.join(changes)}" if changes else None


def _changed(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    return [
        f"field {name} is {old[name]} in the checkpoint and {new[name]} in the job"
        for name in old
        if name in new and old[name] != new[name]
    ]


def _missing(there: Mapping[str, str], here: Mapping[str, str], where: str) -> list[str]:
    return [f"field {name} {kind} is not in {where}" for name, kind in there.items() if name not in here]


def _fields(text: str, within: str = "") -> Iterator[tuple[str, str]]:
    """(path, type) of the StructType that `text` begins with, in their order. Types that hold no fields stay as text.

    What is cut off in the middle is left out.
    """
    for part in _arguments(text):
        name, *kind = _arguments(part)
        if len(kind) < 2:
            continue
        described = ",".join(kind[:-1])  # the last one says whether it may be null
        if described.startswith("StructType("):
            yield from _fields(described, f"{within}{name}.")
        else:
            yield f"{within}{name}", _NAMES.get(described, described.replace("Type", "").upper())


def _arguments(text: str) -> Iterator[str]:
    """`a` and `f(b,c)` of `g(a,f(b,c))…`."""
    depth, start = 0, 0
    for at, letter in enumerate(text):
        if letter == "(":
            depth += 1
            start = at + 1 if depth == 1 else start
        elif letter in ",)" and depth == 1:
            yield text[start:at]
            start = at + 1
        depth -= letter == ")"
        if letter == ")" and depth <= 0:
            return
