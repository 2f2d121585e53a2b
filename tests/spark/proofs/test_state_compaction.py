"""The state of a real query is compacted, and the query goes on afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamwarden.adapters.store import Store
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.events import EventKind
from streamwarden.services.analysis.history import history
from streamwarden.services.state.compacting import compact
from streamwarden.spark.state import taking_out
from support.spark import stateful_queries as queries
from support.spark.state_surgery import ANN, CHANGELOG, Made, ran_once, rows_of, sums

pytestmark = pytest.mark.spark


@pytest.mark.full
def test_a_state_is_compacted(made: Made, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream without maintenance has only changes; then it has one snapshot a partition, and goes on."""
    stream = made(queries.counted, {CHANGELOG: "true"})
    stream.read(3)
    ran_once(store, stream.spec)
    before = stream.tree()
    rightly = taking_out.rewrite_state

    def lossy(session: Any, *, change: Any, **more: Any) -> Any:
        return rightly(session, change=lambda operator, store, rows: rows.where("partition_key.key <> 'k2'"), **more)

    with monkeypatch.context() as wrong:  # the control
        wrong.setattr(taking_out, "rewrite_state", lossy)
        with pytest.raises(CheckpointError, match="0 keys appeared, 1 vanished, 0 changed"):
            compact(store, stream.spec, ANN)
    assert before.items() <= stream.tree().items(), "Spark may upload a snapshot meanwhile, and nothing else"
    done = compact(store, stream.spec, ANN)
    assert done.before is not None
    assert done.before.files > done.after.files == 2
    assert {Path(name).suffix for name in stream.tree() if "/SSTs/" not in name and name.startswith("state/0/0/")} == {
        ".zip", "", ".crc"
    }  # fmt: skip
    assert stream.seen() == sums(rows_of(range(3)))
    (event,) = [event for event in history(store, stream.spec.name, 0.0) if event.kind is EventKind.REWRITTEN]
    assert event.why.startswith("ticket 4711: compaction, batch ")
    stream.read(1)
    assert stream.seen() == sums(rows_of(range(4)))
