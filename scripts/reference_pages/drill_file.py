"""The reference of a drill's YAML file, from the types that validate it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Final

from reference_pages.fields import Key, keys, meaning, table
from streamwarden.drills.faults import FAULTS, Fault
from streamwarden.drills.production import ProductionSpec
from streamwarden.drills.spec import DrillSpec

_SET_BY_THE_LOADER: Final = "file"

_HEAD: Final = """\
# A drill's file

One file `config/drills/NAME.yaml` is one drill. `streamwarden validate` checks all of them and names file, line, key,
value and what is allowed. [The guide](../how-to/drills.md) explains faults, forks and reports.

    name: kill_driver
    stream: flight_departures
    fault: {kind: kill_driver}

## Keys

"""

_TAIL: Final = """
Values are read as in [a stream's file](stream.md#how-values-are-read).
"""


def page() -> str:
    """The whole page, in Markdown."""
    wanted = [each.name for each in fields(DrillSpec) if each.name != _SET_BY_THE_LOADER]
    return _HEAD + table([key for name in wanted for key in _section(name)]) + _TAIL


def _section(name: str) -> Iterator[Key]:
    if name == "fault":
        kinds = ", ".join(f"`{kind}`" for kind in FAULTS)
        yield Key("fault.kind", kinds, "**required**", meaning(Fault, "kind"))
        yield from keys(Fault, leave_out=("kind",), prefix="fault.")
        for kind, fault in FAULTS.items():
            for option in fault.options():
                for key in keys(fault, only=option.name, prefix="fault."):
                    yield replace(key, name=f"{key.name}` of `{kind}")
    elif name == "production":
        yield from keys(ProductionSpec, prefix="production.")
    else:
        yield from keys(DrillSpec, only=name)
