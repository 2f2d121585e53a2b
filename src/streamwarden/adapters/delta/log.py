"""Reads the commits in the log of a Delta table: which batch of which query wrote which files.

A commit is the file `_delta_log/N.json`, a JSON object a line, each an action. Its name is taken once, so a commit is
whole or not there. A streaming batch commits its files together with the action `txn`: the id of the query and the
number of the batch. Delta skips a batch whose number is not above the newest of its query.

Delta removes old commits after a checkpoint of the log (`delta.logRetentionDuration`, 30 days). What the table has
then is still known: delta-rs reads the checkpoints, see `adapters.delta.table`.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

from streamwarden.checkpoint.filesystem import Location, join
from streamwarden.checkpoint.formats.layout import list_or_empty
from streamwarden.checkpoint.formats.uris import to_path
from streamwarden.errors import CheckpointError

LOG: Final = "_delta_log"
HINT: Final = "_last_checkpoint"
"""The file of the log that names a checkpoint of it, from which a reader begins."""
FORK: Final = "FORK"
"""The operation that begins the table of a fork: it names the query whose batches the fork goes on with."""

_COMMIT: Final = re.compile(r"(\d{20})\.json")
_URI: Final = re.compile(r"[a-z][a-z0-9+.-]*:/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One version of the table.

    Args:
        batches: id of a query, or of another application -> its newest batch in this version.
        added, removed: data files, as `path_of` names them. A compaction adds and removes files of the same rows.
        changes_data: whether rows changed: false for a compaction.
        operation: what wrote it, in Delta's words, or `FORK`; query: the id of the query that it names.
        at: when, Unix seconds.
        read: the version that its writer had read; None: it does not say.
    """

    version: int
    batches: Mapping[str, int] = field(default_factory=dict)
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changes_data: bool = False
    operation: str = ""
    query: str = ""
    at: float = 0.0
    read: int | None = None


def commit_name(version: int) -> str:
    """The name of a commit's file in the log."""
    return f"{version:020}.json"


def versions(table: Location) -> list[int]:
    """The versions whose commits are in the log, ascending; none if there is no log. Raises OSError."""
    names = list_or_empty(table / LOG)
    return sorted(int(match[1]) for match in map(_COMMIT.fullmatch, names) if match)


def hinted(table: Location) -> str | None:
    """How the name of the log's checkpoint begins that `_last_checkpoint` names; None: there is no such file. Raises
    OSError, ValueError."""
    try:
        hint = json.loads((table / LOG / HINT).read())
    except FileNotFoundError:
        return None
    return f"{hint['version']:020}.checkpoint."


def is_hint_stale(table: Location) -> bool:
    """Whether `_last_checkpoint` names a checkpoint that is not there. Raises OSError, ValueError."""
    name = hinted(table)
    return name is not None and not any(file.startswith(name) for file in list_or_empty(table / LOG))


def commits(table: Location, *, newest_first: bool = False) -> Iterator[Commit]:
    """The commits that the log still has, one by one. One that Delta removes meanwhile is left out.

    Raises CheckpointError for a commit that cannot be understood, OSError.
    """
    for version in sorted(versions(table), reverse=newest_first):
        try:
            yield read_commit(table, version)
        except FileNotFoundError:
            continue


def read_commit(table: Location, version: int) -> Commit:
    """One commit. Raises CheckpointError if it cannot be understood, OSError."""
    file = table / LOG / commit_name(version)
    try:
        return parsed(version, file.read().decode(), table.path)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CheckpointError(
            f"a commit of the Delta table cannot be understood: {error}",
            expected="JSON objects, one a line, each an action of Delta's protocol",
            where=file.path,
            next_step="restore the file; Spark does not read the table without it either, unless a checkpoint of the "
            "log is newer",
        ) from error


def parsed(version: int, text: str, table: str = "") -> Commit:
    """A commit by its text. Raises ValueError, TypeError, KeyError or AttributeError for another document."""
    batches: dict[str, int] = {}
    added: list[str] = []
    removed: list[str] = []
    info: dict[str, Any] = {}
    changes = False
    for line in text.splitlines():
        action: dict[str, Any] = json.loads(line)
        if txn := action.get("txn"):
            batches[txn["appId"]] = int(txn["version"])
        for name, files in (("add", added), ("remove", removed)):
            if name in action:
                files.append(path_of(action[name]["path"], table))
                changes |= bool(action[name].get("dataChange"))
        info = action.get("commitInfo") or info
    return Commit(
        version=version,
        batches=batches,
        added=tuple(added),
        removed=tuple(removed),
        changes_data=changes,
        operation=str(info.get("operation", "")),
        query=str((info.get("operationParameters") or {}).get("queryId", "")),
        at=float(info.get("timestamp", 0)) / 1000,
        read=info.get("readVersion"),
    )


def path_of(written: str, table: str) -> str:
    """The local path or the URL of a data file whose name the log has percent-encoded, and relative to the table
    unless it belongs to another one."""
    return to_path(written) if _URI.match(written) else join(table, unquote(written))


def own_batches(table: Location, query_id: str) -> dict[int, Commit]:
    """Batch -> the commit with which the query wrote it, as far as the log still has it. Raises as `commits` does."""
    return {commit.batches[query_id]: commit for commit in commits(table) if query_id in commit.batches}


def batches_of_files(table: Location, query_id: str) -> dict[str, int]:
    """Data file -> the batch of the query that added it, as far as the log still says so. Of a fork the batches before
    its own are those of its origin. A file of a compaction has none. Raises as `commits` does."""
    queries = {query_id}
    files: dict[str, int] = {}
    for commit in commits(table, newest_first=True):
        if commit.operation == FORK and queries & commit.batches.keys():
            queries.add(commit.query)
        number = next((commit.batches[query] for query in queries & commit.batches.keys()), None)
        files |= {} if number is None else dict.fromkeys(commit.added, number)
    return files


def listed_at(table: Location, query_id: str, batch: int) -> float | None:
    """When the commit of the query's batch was written, Unix seconds; None: it is not in the log. Raises OSError,
    CheckpointError."""
    for commit in commits(table, newest_first=True):
        number = commit.batches.get(query_id)
        if number == batch:
            return (table / LOG / commit_name(commit.version)).stat().modified or 0.0
        if number is not None and number < batch:
            return None
    return None


def newest_of(table: Location, query_id: str) -> int | None:
    """The newest batch of a query in the log; None if the log has none of it. Raises as `commits` does."""
    found = (commit.batches.get(query_id) for commit in commits(table, newest_first=True))
    return next((batch for batch in found if batch is not None), None)


def newest_of_others(table: Location, own: frozenset[str]) -> tuple[str, int] | None:
    """(query, batch) of the newest batch in the log that another application wrote; None if there is none."""
    for commit in commits(table, newest_first=True):
        others = [(query, batch) for query, batch in commit.batches.items() if query not in own]
        if others:
            return others[-1]
    return None
