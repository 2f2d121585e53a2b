"""Reads the journal of an exchange that was interrupted."""

from pathlib import Path

from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.driver_folder import read_document
from streamwarden.lifecycle.exchanges.exchange import Exchange, journal_of
from streamwarden.stream.spec import StreamSpec


def interrupted(spec: StreamSpec) -> Exchange | None:
    """The exchange of the stream that was interrupted; None: none was. Raises CheckpointError if its journal is
    damaged."""
    journal = Path(journal_of(spec.checkpoint))
    if not journal.exists():
        return None
    try:
        return Exchange(**(read_document(journal) or {}))
    except TypeError as error:
        raise CheckpointError(
            "the journal of an interrupted exchange of the checkpoint cannot be read",
            expected="the document that Streamwarden wrote",
            where=str(journal),
            next_step="restore this file from a backup; its checkpoint and its output may be of different batches",
        ) from error


def require_same(begun: Exchange | None, subject: str | None) -> None:
    """Raises CheckpointError if an exchange was interrupted that is another one than that which is asked for. None: any
    will do."""
    if begun is not None and subject not in (None, begun.subject):
        raise CheckpointError(
            f"a {begun.operation} was interrupted: {begun.subject}",
            expected="that to be completed first",
            where=journal_of(begun.checkpoint),
            next_step=f"run `{begun.command}`",
        )
