"""Durations, sizes and facts as people write them. Inside the code: seconds (float) and bytes (int)."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from streamwarden.errors import InvalidValue

__all__ = ["parse_duration"]

HOUR: Final = 3600
DAY: Final = 24 * HOUR
YEAR: Final = 365.2425 * DAY
"""Seconds."""
KB: Final = 10**3
MB: Final = 10**6
GB: Final = 10**9
"""10^9 bytes: the documented thresholds use decimal units."""

SIZES: Final = ((10**12, "TB"), (GB, "GB"), (MB, "MB"), (KB, "kB"), (1, "B"))
"""Bytes -> unit, largest first: how this package writes a size for people."""

_SECONDS: Final = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 0.001),
    **dict.fromkeys(("", "s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
}
_BYTES: Final = {
    **dict.fromkeys(("", "byte", "bytes"), 1),
    **{name.lower(): size for size, name in SIZES},
    **{"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40},
}
_LONGEST: Final = 30 * 366 * 86400.0
"""The longest duration in seconds; dates and the timeouts of Airflow cannot hold any number."""
_LARGEST: Final = 10.0**18
"""The largest size in bytes."""
_QUANTITY: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*+([A-Za-z]*)")


def parse_duration(text: object) -> float:
    """Seconds in `text`. Raises InvalidValue for anything else, for a negative number and for more than 30 years."""
    return _parse(text, _SECONDS, "a duration such as 30s, 2 seconds, 10m, 1h, 250 ms", most=_LONGEST)


def parse_signed_duration(text: object) -> float:
    """Seconds in `text`, which may begin with a minus sign. Raises InvalidValue for anything else."""
    if isinstance(text, int | float) and text < 0:
        return -parse_duration(-text)
    if isinstance(text, str) and text.strip().startswith("-"):
        return -parse_duration(text.strip().removeprefix("-"))
    return parse_duration(text)


def parse_size(text: object) -> int:
    """Bytes in `text`. Raises InvalidValue for anything else, for a negative number and for more than 10^18 bytes."""
    return int(_parse(text, _BYTES, "a size such as 512 MB, 5 GB (10^9 bytes) or 5 GiB (2^30 bytes)", most=_LARGEST))


def _parse(text: object, units: Mapping[str, float], allowed: str, *, most: float) -> float:
    if isinstance(text, int | float) and not isinstance(text, bool) and 0 <= text <= most:
        return float(text)
    match = _QUANTITY.fullmatch(text.strip()) if isinstance(text, str) else None
    unit = units.get(match.group(2).lower()) if match else None
    if match is None or unit is None or (value := float(match.group(1)) * unit) > most:
        raise InvalidValue(repr(text), allowed=allowed)
    return value


@dataclass(frozen=True, slots=True)
class Quantity:
    """Marks a type whose values are written as text. It is the second argument of `Annotated`.

    Args:
        name: what the reference calls the type.
        parse: turns text into a value that the type accepts. Raises InvalidValue.
    """

    name: str
    parse: Callable[[object], object]

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> dict[str, Any]:
        """pydantic's hook: parse first, then check the type. A schema is a dict, so this imports nothing."""
        function = {"type": "no-info", "function": self.parse}
        return {"type": "function-before", "function": function, "schema": handler(source)}


Seconds = Annotated[float, Quantity("duration", parse_duration)]
"""A duration. YAML accepts a number of seconds or text such as `30s`, `2 seconds`, `10m`, `1h`, `250 ms`."""

SignedSeconds = Annotated[float, Quantity("signed duration", parse_signed_duration)]
"""A duration, forth or, with a minus sign, back."""

Bytes = Annotated[int, Quantity("size", parse_size)]
"""A size. YAML accepts a number of bytes or text such as `5 GB` (10^9) or `5 GiB` (2^30)."""


_YEARS_FROM: Final = 3 * YEAR
"""Seconds from which a duration is written in years: only a wrong clock or unit is that long."""


def format_duration(seconds: float) -> str:
    """`0.25` -> `250 ms`, `12.3` -> `12.3 s`, `754` -> `12m 34s`, `90000` -> `1d 1h`, `2.28e9` -> `72.2 years`."""
    if seconds >= _YEARS_FROM:
        return f"{seconds / YEAR:,.1f} years"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for big, small, size, part in (("d", "h", 86400, 3600), ("h", "m", 3600, 60), ("m", "s", 60, 1)):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size}{big}" + (f" {rest}{small}" if rest else "")
    return f"{whole} s"


def significant(value: float, digits: int) -> str:
    """`value` with so many significant digits at most, but whole: `1.23`, `0.00123`, and with three of them `1,235`."""
    text = f"{value:,.{digits}g}"
    return f"{value:,.0f}" if "e+" in text else text


def format_instant(at: float) -> str:
    """Unix seconds as `2099-01-06 08:00:00 UTC`, or the year alone if it is beyond Python's calendar."""
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, OSError, ValueError):
        return f"the year {1970 + round(at / YEAR):,}"


def format_size(count: float) -> str:
    """`1500` -> `1.5 kB`, `123_400_000` -> `123 MB`, `2_000_000_000` -> `2.0 GB`: decimal units, three digits."""
    size, unit = size_unit(count)
    return f"{count / size:.{0 if size == 1 or count >= 99.95 * size else 1}f} {unit}"


def size_unit(count: float) -> tuple[int, str]:
    """The largest of `SIZES` that `count` bytes reach; below one byte, the byte."""
    return next((size for size in SIZES if count >= size[0]), SIZES[-1])


def format_count(count: int, noun: str) -> str:
    """`1 batch`, `1,200 batches`: the count with the noun, a regular one, in its number."""
    plural = noun + ("es" if noun.endswith("ch") else "s")
    return f"{count:,} {noun if count == 1 else plural}"


def format_list(items: Iterable[str]) -> str:
    """`a, b and c`; empty if there are none."""
    *most, last = (*items,) or ("",)
    return f"{', '.join(most)} and {last}" if most else last


def format_fact(name: str, value: object) -> str:
    """A value of a verdict's evidence: `2026-01-31 12:00:00 UTC` if the name says that it is a time (`ended_at`,
    `gone_since`, in Unix seconds), `1,234`, `0.0466`, or the text or the number (`batch_id`) as it is."""
    if isinstance(value, bool) or not isinstance(value, int | float) or name.endswith(("_id", "batch", "pid")):
        return str(value)
    if name.endswith(("_at", "_since")):
        return format_instant(value)
    return f"{value:,.0f}" if abs(value) >= 1000 or isinstance(value, int) else f"{value:.3g}"
