"""Finds the input of a row that never came: the records that have the same values as its key."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from streamwarden.verification.lines import json_object

_LONGEST: Final = 200
"""Characters that are shown of a record."""


def records_like(key: Mapping[str, object], inputs: Sequence[Path]) -> str:
    """The first input record with the values of `key`, and how many more there are; empty if none has them.

    Only columns that have a text or a whole number count, and only those that the record has as a field: a record need
    not have the bounds of its window. At least one has to. Only lines of JSON are understood.
    """
    wanted = {name: value for name, value in key.items() if type(value) in (str, int)}
    found = list(_matching(wanted, inputs)) if wanted else []
    if not found:
        return ""
    where, names = found[0]
    more = f", and {len(found) - 1:,} more" if len(found) > 1 else ""
    return f"{where}{more}: the input with the same {', '.join(names)}"


def _matching(wanted: Mapping[str, object], inputs: Sequence[Path]) -> Iterator[tuple[str, list[str]]]:
    """(the record and its place, the columns that it shares) of each record that contradicts no column."""
    texts = [json.dumps(value, ensure_ascii=False).strip('"') for value in wanted.values()]
    for path in inputs:
        with path.open(encoding="utf-8", errors="replace") as lines:
            for number, line in enumerate(lines, 1):
                if not any(text in line for text in texts) or (record := json_object(line)) is None:
                    continue
                shared = [name for name in wanted if name in record]
                if shared and all(record[name] == wanted[name] for name in shared):
                    yield f"{path.name} line {number}: {line.strip()[:_LONGEST]}", shared
