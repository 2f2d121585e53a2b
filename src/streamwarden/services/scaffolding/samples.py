"""Sample input of a new stream: the same lines for everybody, so that the first run shows something."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

FILES: Final = 20
"""At least as many as a drill's fork has batches."""

ORDERS_PER_FILE: Final = 1000

_BEGIN: Final = datetime(2025, 1, 6, 8, tzinfo=UTC)
_SHOPS: Final = ("north", "east", "south", "west")

_POEM: Final = """\
the stream goes on while the driver sleeps
the driver wakes and reads the words again
no word is lost and no word is counted twice
"""


def orders() -> Iterator[tuple[str, str]]:
    """(file name, lines): an order each second, over some five hours."""
    for file in range(FILES):
        numbers = range(file * ORDERS_PER_FILE, (file + 1) * ORDERS_PER_FILE)
        yield f"{file:04d}.json", "".join(f"{json.dumps(_order(number))}\n" for number in numbers)


def words() -> Iterator[tuple[str, str]]:
    """(file name, lines): a short text."""
    yield "poem.txt", _POEM


def _order(number: int) -> dict[str, object]:
    at = _BEGIN + timedelta(seconds=number)
    return {
        "order_id": f"o-{number:06d}",
        "event_time": at.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
        "shop": _SHOPS[number * 7 % 11 % len(_SHOPS)],
        "amount": 100 + number * 37 % 9900,
    }
