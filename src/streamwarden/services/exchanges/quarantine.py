"""Puts a quarantine back to a batch: the malformed rows of later batches are moved aside, because the batches that
are going to have their numbers may read other rows."""

from pathlib import Path

from streamwarden import disk
from streamwarden.health.quarantine import mark_of
from streamwarden.lifecycle.exchanges.exchange import Exchange


def later_folders(quarantine: Path, restore: Exchange) -> list[Path]:
    """The folders of later batches of the query. Raises OSError."""
    folders = quarantine.glob(f"query={restore.query_id}/batch=*")
    numbers = ((folder, folder.name.partition("=")[2]) for folder in folders)
    return [folder for folder, number in numbers if number.isdecimal() and int(number) > restore.batch]


def take_back(quarantine: Path, restore: Exchange) -> None:
    """Move the rows of later batches aside, and let the driver begin after the exchange's batch. Repeated, it moves
    the rest. Raises OSError."""
    aside = quarantine / f"_set_aside-{restore.stamp}"
    for folder in later_folders(quarantine, restore):
        target = aside / folder.relative_to(quarantine)
        target.parent.mkdir(parents=True, exist_ok=True)
        folder.rename(target)
    mark = quarantine / mark_of(restore.query_id)
    if mark.exists() and int(mark.read_text().strip() or -1) > restore.batch:
        disk.replace(mark, str(restore.batch), durable=False)
