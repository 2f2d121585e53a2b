"""An upgrade from its preflight to its end: what the command line, and whoever else upgrades a stream, calls."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from streamwarden import disk
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.upgrades.journal import Step, Upgrade
from streamwarden.lifecycle.upgrades.preflight import Obstacle, Preflight, obstacles, of_output
from streamwarden.services.upgrades.beside import Beside, beside, clear
from streamwarden.services.upgrades.journals import (
    BESIDE,
    JOURNAL,
    NEW,
    OLD,
    Upgrades,
    is_open,
    read_journal,
    write_journal,
    write_preflight,
)
from streamwarden.services.upgrades.live import LiveStream
from streamwarden.services.upgrades.preflight import preflight
from streamwarden.services.upgrades.proposal import Proposal
from streamwarden.services.upgrades.switching import Switch
from streamwarden.sinks.base import Sink
from streamwarden.stream.spec import StreamSpec

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a person wants of an upgrade.

    Args:
        batches: that both versions execute in the preflight.
        accepted: go on although something differs.
        watch: seconds for which the new version is watched.
        rollback: go back by itself if it fails.
    beside: seconds for which the new version runs beside the old one before the switch; None: it does not.
    """

    by: str
    reason: str
    batches: int
    accepted: bool
    watch: float
    rollback: bool
    beside: float | None = None


def tried(proposal: Proposal, batches: int) -> tuple[Preflight, Path]:
    """The preflight, and the folder that has it. Raises as `preflight` does; CheckpointError if one is running."""
    upgrades = Upgrades.of(proposal.before)
    with upgrades.alone():
        return _tried(upgrades, proposal, batches)


def upgraded(
    store: "Store", live: LiveStream, proposal: Proposal, order: Order, show: Callable[[Preflight, Path], None]
) -> Upgrade | tuple[Obstacle, ...]:
    """The upgrade at its end; what stands in its way, if it was not begun.

    Args:
        show: is given the preflight before anything is changed.

    Raises CheckpointError if one was interrupted, or this one cannot be begun; what `preflight` and `Switch.carry_out`
    raise.
    """
    spec, upgrades = proposal.before, Upgrades.of(proposal.before)
    with upgrades.alone():
        require_possible(live, spec, rollback=order.rollback)
        found, folder = _tried(upgrades, proposal, order.batches)
        show(found, folder)
        if standing := obstacles(found, order.accepted):
            return standing
        left_out = () if found.output is None else found.output.left_out
        return _carried_out(store, live, proposal, order, folder, left_out)


def approved(
    store: "Store", live: LiveStream, proposal: Proposal, order: Order, folder: Path, left_out: tuple[str, ...]
) -> Upgrade | tuple[Obstacle, ...]:
    """The upgrade that was tried in this folder, and that a person has approved since, at its end; what stands in its
    way, if it was not begun.

    Args:
        left_out: columns in which two runs of the old version differ, as the preflight has found.

    Raises as `upgraded` does.
    """
    spec, upgrades = proposal.before, Upgrades.of(proposal.before)
    with upgrades.alone():
        require_possible(live, spec, rollback=order.rollback)
        if not folder.exists():
            raise CheckpointError(
                f"the preflight {folder.name} of {spec.name} was removed: newer ones have taken its place",
                expected="the preflight that was approved",
                where=str(folder),
                next_step="try the new version again",
            )
        return _carried_out(store, live, proposal, order, folder, left_out)


def continued(store: "Store", live: LiveStream, spec: StreamSpec, folder: Path) -> Upgrade | None:
    """The upgrade of this folder at its end, if it was begun; it may have ended before. None: it was not begun."""
    with Upgrades.of(spec).alone():
        if not (folder / JOURNAL).exists():
            return None
        upgrade = read_journal(folder)
        return upgrade if upgrade.step.is_end else _switched(store, live, spec, folder, upgrade)


def resumed(store: "Store", live: LiveStream, spec: StreamSpec) -> Upgrade:
    """The upgrade that was interrupted, at its end. Raises CheckpointError if none was."""
    with Upgrades.of(spec).alone():
        return _switched(store, live, spec, *interrupted(spec))


def interrupted(spec: StreamSpec) -> tuple[Path, Upgrade]:
    """The upgrade that was interrupted, and its folder. Raises CheckpointError if none was."""
    upgrades = Upgrades.of(spec)
    found = upgrades.open()
    if found is None:
        raise CheckpointError(
            f"no upgrade of {spec.name} was interrupted",
            expected="`--job NEW.py` or `--file NEW.yaml`",
            where=str(upgrades.root),
            next_step=f"run `streamwarden upgrade {spec.name} --job NEW.py`",
        )
    return found


def require_possible(live: LiveStream, spec: StreamSpec, *, rollback: bool) -> None:
    """Raises CheckpointError, ConfigError if no upgrade of the stream may begin, whatever its new version is."""
    require_none_open(Upgrades.of(spec))
    live.require_wanted(spec.name)
    if rollback:
        _require_way_back(spec)


def _carried_out(
    store: "Store", live: LiveStream, proposal: Proposal, order: Order, folder: Path, left_out: tuple[str, ...]
) -> Upgrade | tuple[Obstacle, ...]:
    """The switch, after the new version has run beside the old one, if that is wanted."""
    spec = proposal.before
    if order.beside is None:
        live.prepare(proposal.after)
        return _switched(store, live, spec, folder, _prepared(live, proposal, order, folder))
    for left in folder.parent.glob(f"*/{BESIDE}"):  # of upgrades that were killed: none is open
        clear(spec, left.parent)
    live.say(f"the new version runs beside the old one for {order.beside:.0f} s; what differs: {folder / BESIDE}.json")
    try:
        with beside(proposal, folder, order.beside, live.say, left_out=left_out, accepted=order.accepted) as green:
            found = green.follow(order.beside)
            if found.differs and not order.accepted:
                return tuple(of_output(found))
            return _switched(store, live, spec, folder, _prepared(live, proposal, order, folder), green)
    finally:
        if not is_open(folder):
            clear(spec, folder)


def _prepared(live: LiveStream, proposal: Proposal, order: Order, folder: Path) -> Upgrade:
    """The upgrade, whose journal is written: from here on it is completed, or taken back."""
    disk.replace(folder / OLD, proposal.old_text, mode=disk.PRIVATE)
    disk.replace(folder / NEW, proposal.new_text, mode=disk.PRIVATE)
    begun = Upgrade(
        id=folder.name,
        stream=proposal.before.name,
        step=Step.PREPARED,
        by=order.by,
        reason=order.reason,
        before=proposal.before.job,
        after=proposal.after.job,
        watch=order.watch,
        critical=live.is_critical(),
        rollback=order.rollback,
        beside=order.beside is not None,
    )
    return write_journal(folder, begun)


def _switched(
    store: "Store", live: LiveStream, spec: StreamSpec, folder: Path, upgrade: Upgrade, green: Beside | None = None
) -> Upgrade:
    live.critical = frozenset(upgrade.critical)
    switch = Switch(store=store, live=live, spec=spec, folder=folder, upgrade=upgrade, green=green, say=live.say)
    ended = switch.carry_out()
    if green is None:  # otherwise its process ends first
        clear(spec, folder)
    return ended


def _tried(upgrades: Upgrades, proposal: Proposal, batches: int) -> tuple[Preflight, Path]:
    folder = upgrades.new(time.time())
    found = preflight(proposal, folder / "forks", batches=batches)
    write_preflight(folder, found)
    return found, folder


def require_none_open(upgrades: Upgrades) -> None:
    """Raises CheckpointError if an upgrade was interrupted."""
    found = upgrades.open()
    if found is not None:
        folder, upgrade = found
        raise CheckpointError(
            f"the upgrade {upgrade.id} of {upgrade.stream} to {upgrade.after} was interrupted ({upgrade.step})",
            expected="that upgrade to be completed first, or taken back",
            where=str(folder),
            next_step=f"run `streamwarden upgrade {upgrade.stream}`, without a job",
        )


def _require_way_back(spec: StreamSpec) -> None:
    """Raises CheckpointError if what the new version wrote could not be taken back."""
    sink = spec.sink
    assert isinstance(sink, Sink)  # no other stream can be forked
    if not (sink.MANIFEST or sink.can_be_set_back):
        raise CheckpointError(
            f"what a new version of {spec.name} writes cannot be taken back (sink.kind {sink.kind}, sink.mode "
            f"{sink.mode})",
            expected="a sink of files or a PostgreSQL table in append mode",
            where=spec.file,
            next_step="add `--no-rollback`: if the new version fails, it is left as it is, and you decide",
        )
