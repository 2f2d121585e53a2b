"""Mutes streams and plans maintenance windows, ends them early, and lists them. Who, when and why are recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from streamwarden.config.loading import unknown
from streamwarden.errors import ConfigError
from streamwarden.health.check_relations import (
    AUDIT_BALANCE,
    CONFIGURATION,
    DRILL,
    EVERYWHERE,
    OVERDUE,
    SUPERVISION,
)
from streamwarden.health.checks import CHECKS
from streamwarden.health.incidents.mutes import Mute
from streamwarden.lifecycle.queries import SEPARATOR, identity, owner

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store
    from streamwarden.config.loading import Catalog

_NAMES: Final = (*(check.name for check in CHECKS), SUPERVISION, CONFIGURATION, AUDIT_BALANCE, OVERDUE)
"""The checks whose incidents belong to a stream; those of its drills are not among them."""

_LIST: Final = "`streamwarden mutes` lists them with their ids"


def mute(
    store: Store,
    catalog: Catalog,
    stream: str,
    *,
    until: float,
    who: str,
    reason: str,
    now: float,
    checks: Sequence[str] = (),
) -> Mute:
    """Send nothing of this stream, of one of its queries (`STREAM/QUERY`), or of some of its checks, from now on.

    A stream stands for all its queries. Raises ConfigError for an unknown name, a time that has passed, or an empty
    reason; StoreError.

    Args:
        until: Unix seconds.
        checks: empty: every check.
    """
    _require_known(store, catalog, stream)
    for check in checks:
        _require_check(check)
    return _add(
        store,
        Mute(
            mute_id=uuid4().hex,
            who=who,
            reason=reason.strip(),
            created_at=now,
            starts_at=now,
            until=until,
            streams=(stream,),
            checks=tuple(dict.fromkeys(checks)),
        ),
    )


def plan_maintenance(
    store: Store,
    catalog: Catalog,
    *,
    starts_at: float,
    until: float,
    who: str,
    reason: str,
    now: float,
    streams: Sequence[str] = (),
    tag: str = "",
    fleet: bool = False,
) -> Mute:
    """Plan a maintenance window. Nothing is sent of the streams it covers.

    Exactly one of `streams`, `tag` and `fleet` is given. A tag stands for the streams that have it now: a later change
    of a file neither mutes a stream nor lets it alarm. Raises ConfigError as `mute` does; StoreError.

    Args:
        starts_at, until: Unix seconds; a time that has passed starts it now.
        streams: streams and queries.
        fleet: everything, with the incidents that concern all streams.
    """
    if sum(map(bool, (streams, tag, fleet))) != 1:
        raise ConfigError(
            "it is not clear what the maintenance window covers",
            expected="one of: names of streams, a tag, the whole fleet",
            next_step="name streams, or give `--tag TAG` or `--all`",
        )
    for name in streams:
        _require_known(store, catalog, name)
    return _add(
        store,
        Mute(
            mute_id=uuid4().hex,
            who=who,
            reason=reason.strip(),
            created_at=now,
            starts_at=max(now, starts_at),
            until=until,
            streams=_tagged(catalog, tag) if tag else tuple(dict.fromkeys(streams)),
            tag=tag,
            planned=True,
        ),
    )


def unmute(store: Store, mute_id: str, *, who: str, reason: str, now: float) -> Mute:
    """End a mute or a maintenance window now, also one that has not begun. Returns it as it is recorded.

    Raises ConfigError if it is not known or over; StoreError.

    Args:
        mute_id: or its first characters.
    """
    entry = _find(store, mute_id, now)
    if not store.mutes.end(entry.mute_id, at=now, by=who, reason=reason):
        raise _over(mute_id)
    return store.mutes.get(entry.mute_id) or entry


def mutes_of(store: Store, scope: str, now: float) -> tuple[Mute, ...]:
    """The mutes of exactly this stream or query that are in force, without maintenance windows. Raises StoreError."""
    return tuple(
        entry
        for entry in current_mutes(store, now)
        if entry.streams == (scope,) and not entry.planned and entry.in_force(now)
    )


def current_mutes(store: Store, now: float) -> tuple[Mute, ...]:
    """The mutes and maintenance windows that are in force or planned, by their beginning. Raises StoreError."""
    return tuple(entry for entry in store.mutes.since(now) if entry.over_at > now)


def _add(store: Store, new: Mute) -> Mute:
    if not new.reason:
        raise ConfigError(
            "the reason is empty", expected="why nothing is to be sent", next_step="give a reason; it is recorded"
        )
    if new.until <= new.starts_at:
        raise ConfigError(
            "it would end before it begins, or has ended already",
            expected="an end in the future, after the beginning",
            next_step="give a later end",
        )
    store.mutes.add(new)
    return new


def _require_known(store: Store, catalog: Catalog, name: str) -> None:
    if name == EVERYWHERE:
        raise ConfigError(
            "these incidents concern all streams: a mute would hide from each of them why it suffers",
            expected="the name of a stream",
            next_step="acknowledge the incident, or plan a maintenance window of the whole fleet",
        )
    stream = owner(name)
    if stream not in catalog.broken and store.drivers.latest(stream) is None:
        catalog.get(stream)
    if SEPARATOR in name:
        declared = catalog.streams[stream].queries if stream in catalog.streams else ()
        names = [identity(stream, query) for query in declared]
        names += [query.identity for query in store.queries.of(stream) if query.name]
        if name not in names:
            raise unknown("query", name, sorted({*names}), f"see `streamwarden status {stream}`")


def _require_check(name: str) -> None:
    if name not in _NAMES and not name.startswith(DRILL):
        raise unknown("check", name, _NAMES, "`streamwarden incidents` shows the check of each incident")


def _tagged(catalog: Catalog, tag: str) -> tuple[str, ...]:
    streams = tuple(sorted(name for name, spec in catalog.streams.items() if tag in spec.tags))
    if not streams:
        tags = {label for spec in catalog.streams.values() for label in spec.tags}
        raise unknown("tag", tag, tags, "see `tags` in config/streams")
    return streams


def _find(store: Store, beginning: str, now: float) -> Mute:
    whole = store.mutes.get(beginning)
    if whole is not None:
        return whole
    matches = [entry for entry in current_mutes(store, now) if entry.mute_id.startswith(beginning)]
    if not matches or not beginning:
        raise _over(beginning)
    if len(matches) > 1:
        observed = f"several mutes begin with {beginning!r}"
        raise ConfigError(observed, expected="the id of one, or its first characters", next_step=_LIST)
    return matches[0]


def _over(mute_id: str) -> ConfigError:
    return ConfigError(
        f"no mute {mute_id!r} is in force or planned",
        expected="a mute or a maintenance window that is not over",
        next_step=_LIST,
    )
