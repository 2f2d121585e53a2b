"""The verdict repository: the newest verdict of each stream and check, and a history of the changes.

Checks run each minute for each stream: one row for each verdict would be millions of equal rows a day.
"""

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from streamwarden.adapters.store.database import Repository, upsert
from streamwarden.adapters.store.process_columns import to_columns
from streamwarden.adapters.store.tables import verdict_changes, verdicts
from streamwarden.health.verdict import Status, Verdict

_CHUNK: Final = 1000
"""Verdicts in one transaction, so that no writer waits long for the lock."""


_STORED: Final = (
    verdicts.update()
    .where(verdicts.c.stream == sa.bindparam("of_stream"), verdicts.c.check_name == sa.bindparam("of_check"))
    .where(verdicts.c.at == sa.bindparam("before"))
)
_CONFIRM: Final = _STORED.values(at=sa.bindparam("new_at"))
_SAID: Final = ("value", "unit", "reason", "advice", "evidence")
"""What a verdict says besides its status."""
_RENEW: Final = _STORED.values({name: sa.bindparam(f"new_{name}") for name in ("at", *_SAID)})


class SqlVerdictRepository(Repository):
    """Keeps verdicts. Each method raises StoreError; each is one transaction, `save` one for each 1,000 verdicts."""

    def save(self, new: Iterable[Verdict], previous: Mapping[str, Mapping[str, Verdict]] | None = None) -> None:
        """Keep each verdict as the newest of its stream and check, unless a later one is there already.

        Args:
            previous: stream -> check -> the verdict that the caller has read. One with the same status replaces it
                without a second reading, and one that says the same only renews its time, unless another process has
                stored a newer verdict.
        """
        by_check = {(verdict.stream, verdict.check): verdict for verdict in sorted(new, key=lambda verdict: verdict.at)}
        every = list(by_check.items())
        for start in range(0, len(every), _CHUNK):
            chunk = dict(every[start : start + _CHUNK])
            renewed = _renewed(chunk.values(), previous or {})
            self._database.write(lambda c, chunk=chunk, renewed=renewed: _put(c, chunk, renewed))  # type: ignore[misc]

    def latest(self, stream: str | None = None) -> tuple[Verdict, ...]:
        """The newest verdict of each check, by stream and check name."""
        query = verdicts.select().order_by(verdicts.c.stream, verdicts.c.check_name)
        if stream is not None:
            query = query.where(verdicts.c.stream == stream)
        return tuple(_read(row) for row in self._rows(query))

    def forget(self, gone: Iterable[tuple[str, str]]) -> None:
        """Remove the newest verdicts of these (stream, check); their history stays."""
        doomed = [{"of_stream": stream, "of_check": check} for stream, check in gone]
        this = verdicts.c.stream == sa.bindparam("of_stream"), verdicts.c.check_name == sa.bindparam("of_check")
        self._execute(verdicts.delete().where(*this), doomed)

    def changes(self, stream: str, since: float) -> Sequence[Verdict]:
        """The verdicts of `stream` that changed a status at or after `since`, oldest first."""
        query = (
            verdict_changes.select()
            .where(verdict_changes.c.stream == stream, verdict_changes.c.at >= since)
            .order_by(verdict_changes.c.at, verdict_changes.c.id)
        )
        return tuple(_read(row) for row in self._rows(query))


_says: Final = attrgetter(*_SAID)


def _renewed(
    new: Iterable[Verdict], previous: Mapping[str, Mapping[str, Verdict]]
) -> dict[sa.Update, list[dict[str, Any]]]:
    """How to write the verdicts with the status of the one before: statement -> its parameters."""
    renewed: dict[sa.Update, list[dict[str, Any]]] = {_CONFIRM: [], _RENEW: []}
    for verdict in new:
        before = previous.get(verdict.stream, {}).get(verdict.check)
        if before is None or before.at > verdict.at or before.status is not verdict.status:
            continue
        one = {"of_stream": verdict.stream, "of_check": verdict.check, "before": before.at, "new_at": verdict.at}
        if _says(verdict) == _says(before):
            renewed[_CONFIRM].append(one)
        else:
            renewed[_RENEW].append(one | {f"new_{name}": getattr(verdict, name) for name in _SAID})
    return renewed


def _put(
    connection: Connection, new: dict[tuple[str, str], Verdict], renewed: Mapping[sa.Update, list[dict[str, Any]]]
) -> None:
    """Write the verdicts. If another process has stored one of those that are renewed since, all are compared with what
    is stored."""
    done = {(one["of_stream"], one["of_check"]) for ones in renewed.values() for one in ones}
    found = sum(connection.execute(how, ones).rowcount for how, ones in renewed.items() if ones)
    if found == len(done):
        new = {key: verdict for key, verdict in new.items() if key not in done}
    if new:
        _replace(connection, new)


def _replace(connection: Connection, new: dict[tuple[str, str], Verdict]) -> None:
    stored = _known(connection, {stream for stream, _ in new})
    fresh = {key: verdict for key, verdict in new.items() if key not in stored or stored[key][0] <= verdict.at}
    changed = [verdict for key, verdict in fresh.items() if key not in stored or stored[key][1] != verdict.status.value]
    upsert(connection, verdicts, [_row(verdict) for verdict in fresh.values()])
    if changed:
        connection.execute(verdict_changes.insert(), [_row(verdict) for verdict in changed])


def _known(connection: Connection, streams: set[str]) -> dict[tuple[str, str], tuple[float, str]]:
    """(stream, check) -> (at, status)"""
    query = sa.select(verdicts.c.stream, verdicts.c.check_name, verdicts.c.at, verdicts.c.status).where(
        verdicts.c.stream.in_(streams)
    )
    return {(row.stream, row.check_name): (row.at, row.status) for row in connection.execute(query)}


def _row(verdict: Verdict) -> dict[str, Any]:
    return to_columns(verdicts, verdict, check_name=verdict.check, status=verdict.status.value)


def _read(row: Row[Any]) -> Verdict:
    return Verdict(  # not by `to_record`: a page of a large fleet reads 20,000 of them
        stream=row.stream,
        check=row.check_name,
        status=Status(row.status),
        at=row.at,
        value=row.value,
        unit=row.unit,
        reason=row.reason,
        advice=row.advice,
        evidence=row.evidence,
    )
