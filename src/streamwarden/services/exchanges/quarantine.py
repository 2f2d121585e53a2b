"""Puts a quarantine back to a batch: the malformed rows of later batches are moved aside, because the batches that
are going to have their numbers may read other rows."""

from streamwarden.adapters.storage.moving import move
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.layout import list_or_empty
from streamwarden.health.quarantine import mark_of
from streamwarden.lifecycle.exchanges.exchange import Exchange


def later_folders(quarantine: Location, restore: Exchange) -> list[str]:
    """The folders of later batches of the query, below the quarantine. Raises OSError."""
    query = f"query={restore.query_id}"
    numbers = ((name, name.removeprefix("batch=")) for name in list_or_empty(quarantine / query))
    return [f"{query}/{name}" for name, number in numbers if number.isdecimal() and int(number) > restore.batch]


def take_back(quarantine: Location, restore: Exchange) -> None:
    """Move the rows of later batches aside, and let the driver begin after the exchange's batch. Repeated, it moves
    the rest. Raises OSError."""
    for folder in later_folders(quarantine, restore):
        move(quarantine / folder, quarantine / f"_set_aside-{restore.stamp}" / folder)
    mark = quarantine / mark_of(restore.query_id)
    try:
        reached = int(mark.read().strip() or -1)
    except FileNotFoundError:
        return
    if reached > restore.batch:
        mark.write(str(restore.batch).encode())
