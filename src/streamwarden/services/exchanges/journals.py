"""Reads and writes the journal of an exchange, beside the checkpoint: on this host, or in its object store."""

import json
from dataclasses import asdict
from pathlib import Path

from streamwarden import disk
from streamwarden.adapters.storage.files import LocalFiles, open_path
from streamwarden.adapters.storage.moving import exists
from streamwarden.checkpoint.filesystem import Location
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.exchanges.exchange import Exchange, journal_of
from streamwarden.stream.spec import StreamSpec


def journal_at(spec: StreamSpec) -> Location:
    """The journal, which need not exist."""
    return open_path(journal_of(spec.checkpoint), spec.storage.connection)


def write_journal(spec: StreamSpec, begun: Exchange) -> None:
    """From here on the exchange is completed. On a disk it survives a power failure. Raises OSError."""
    journal, text = journal_at(spec), json.dumps(asdict(begun), indent=1)
    if isinstance(journal.fs, LocalFiles):
        disk.replace(Path(journal.path), text)
    else:
        journal.write(text.encode())


def is_interrupted(spec: StreamSpec) -> bool:
    """Whether an exchange of the stream is not complete. Raises CheckpointError if the storage does not say it."""
    journal = journal_at(spec)
    try:
        return exists(journal)
    except OSError as error:
        raise _unreadable(journal, error) from error


def interrupted(spec: StreamSpec) -> Exchange | None:
    """The exchange of the stream that was interrupted; None: none was. Raises CheckpointError if its journal is
    damaged, or cannot be read."""
    journal = journal_at(spec)
    try:
        return Exchange(**json.loads(journal.read()))
    except FileNotFoundError:
        return None
    except (TypeError, ValueError) as error:
        raise CheckpointError(
            "the journal of an interrupted exchange of the checkpoint cannot be read",
            expected="the document that Streamwarden wrote",
            where=journal.path,
            next_step="restore this file from a backup; its checkpoint and its output may be of different batches",
        ) from error
    except OSError as error:
        raise _unreadable(journal, error) from error


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


def _unreadable(journal: Location, error: OSError) -> CheckpointError:
    return CheckpointError(
        f"it cannot be seen whether an exchange of the checkpoint was interrupted: {error}",
        expected="storage that can be listed and read",
        where=journal.path,
        next_step="check the storage, its permissions and, for an object store, the connection",
    )
