"""Gives a stopped stream the checkpoint of the fork on which its new version has executed the same batches.

State and commits are the new version's. What a source has read is the stream's own, with the stream's paths, and so is
the query's id: the output's record of batches is kept by it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from streamwarden.adapters.storage.files import checkpoint_of, open_path
from streamwarden.checkpoint.filesystem import Location, join
from streamwarden.checkpoint.formats.layout import METADATA
from streamwarden.checkpoint.formats.logs import log_position
from streamwarden.lifecycle.exchanges.exchange import Exchange
from streamwarden.lifecycle.forks import plan as plans
from streamwarden.lifecycle.forks.places import Places
from streamwarden.lifecycle.forks.plan import CopyStep, Link, Survey, Write
from streamwarden.lifecycle.upgrades.journal import Upgrade
from streamwarden.services.exchanges.exchanging import Change
from streamwarden.services.forks.copying import rewritten
from streamwarden.services.forks.files import carry_out
from streamwarden.services.forks.gathering import survey
from streamwarden.services.twins.making import FORK
from streamwarden.services.upgrades.journals import BESIDE
from streamwarden.stream.spec import StreamSpec


def subject_of(upgrade: Upgrade) -> str:
    """How the exchange names the upgrade."""
    return f"upgrade {upgrade.id}"


@dataclass(frozen=True, slots=True)
class TakeOver(Change):
    """`fork`: the checkpoint of the new version."""

    spec: StreamSpec
    upgrade: Upgrade
    fork: Location

    def planned(self, checkpoint: str, stamp: str) -> Exchange:
        query_id, batch = log_position(checkpoint_of(self.spec)).query_id, self.upgrade.batch
        assert query_id is not None  # a savepoint was taken of it
        assert batch is not None
        return Exchange(
            operation="upgrade",
            subject=subject_of(self.upgrade),
            command=f"streamwarden upgrade {self.spec.name}",
            stream=self.spec.name,
            query_id=query_id,
            batch=batch,
            stamp=stamp,
            by=self.upgrade.by,
            reason=self.upgrade.reason,
            checkpoint=checkpoint,
        )

    def fill(self, exchange: Exchange) -> None:
        origin = checkpoint_of(self.spec)
        carry_out(self._of_fork(survey(self.fork, None), exchange), self.fork.fs, None)
        carry_out(self._of_stream(survey(origin, None), exchange), origin.fs, None)

    def _of_fork(self, history: Survey, exchange: Exchange) -> Iterator[CopyStep]:
        places = replace(Places.under(exchange.prepared), checkpoint=exchange.prepared)
        final = replace(places, checkpoint=exchange.checkpoint)
        yield from plans.checkpoint_links(history, places, exchange.batch)
        step = partial(plans.operator_step, checkpoint=self.fork.path)
        for name in plans.operator_logs(history, exchange.batch):
            written = rewritten(self.fork, name, final, step, "whole metadata of the operator")
            yield Write(join(exchange.prepared, name), written.text)

    def _of_stream(self, history: Survey, exchange: Exchange) -> Iterator[Link]:
        for name in (*plans.source_logs(history, exchange.batch), METADATA):
            yield Link(join(history.checkpoint, name), join(exchange.prepared, name))


def fork_of(folder: Path) -> Location:
    """The checkpoint of the version that runs beside. `folder`: of the upgrade."""
    return open_path(Places.under(str((folder / BESIDE / FORK).absolute())).checkpoint)
