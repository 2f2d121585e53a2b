"""The files of a batch that is planned and not committed must exist before the query starts.

Spark runs such a batch again with the files that it had planned. It lists them again, and skips each that it does not
find, without an error or a warning to the user: the rows of a file that was removed meanwhile would be missing.
"""

import contextlib
from collections.abc import Iterator
from typing import Final

from streamwarden.adapters.storage.files import checkpoint_of, open_path
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.logs import log_position
from streamwarden.checkpoint.formats.sources import file_source_log
from streamwarden.checkpoint.formats.uris import to_path
from streamwarden.errors import CheckpointError, InputGone
from streamwarden.lifecycle.failures.causes import INPUT_FILE_GONE
from streamwarden.stream.spec import StreamSpec

_IGNORED: Final = "ignoremissingfiles"
"""Spark's option for a file that is gone, in lower case: to set it is to accept the loss of its rows."""

_NAMED: Final = 3
"""Files that the error names."""


def missing_files(spec: StreamSpec) -> list[str]:
    """The files of the planned batch that do not exist. Empty if the stream accepts their loss, and for a damaged
    checkpoint, which is left for Spark to refuse."""
    options = {key.lower(): value.lower() for key, value in spec.source.options.items()}
    if options.get(_IGNORED) == "true":
        return []
    with contextlib.suppress(CheckpointError):
        return list(_gone(spec, checkpoint_of(spec)))
    return []


def require_planned_input(spec: StreamSpec) -> None:
    """Raises InputGone if a file of the planned batch does not exist."""
    gone = missing_files(spec)
    if gone:
        more = f" and {len(gone) - _NAMED} more" if len(gone) > _NAMED else ""
        raise InputGone(
            f"a batch is planned with files that no longer exist: {', '.join(gone[:_NAMED])}{more}",
            expected="every file of a batch until it is committed; Spark would leave out their rows in silence",
            where=f"stream {spec.name}",
            next_step=INPUT_FILE_GONE.next_step,
        )


def _gone(spec: StreamSpec, checkpoint: Location) -> Iterator[str]:
    position = log_position(checkpoint)
    if position.planned is None or position.gap == 0:
        return
    for place in range(len(spec.source.folders)):
        for uri in file_source_log(checkpoint, place).get(position.planned, ()):
            path = to_path(uri)
            try:
                open_path(path, spec.storage.connection).stat()
            except FileNotFoundError:
                yield path
            except OSError:
                continue  # the storage does not answer: Spark's reader reports it
