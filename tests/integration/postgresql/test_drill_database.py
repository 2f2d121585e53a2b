"""What a drill hears and asks of the database of a fork's sink."""

from __future__ import annotations

import os
from pathlib import Path

import psycopg
import pytest

from streamwarden.adapters.connections import variable
from streamwarden.drills.records.types import ForkView
from streamwarden.errors import DrillError
from streamwarden.services.drilling.ports.sink import ForkSink
from streamwarden.sinks.postgresql.sink import PostgresqlSink
from streamwarden.sinks.postgresql.transaction import Batch
from streamwarden.stream.spec import StreamSpec
from support.oracles.sink_tables import QUERY, Base, batch

TABLE = PostgresqlSink(connection="warehouse", table="scratch.counts")


def view(folder: Path) -> ForkView:
    """A fork whose query has an id and nothing else."""
    (folder / "metadata").write_text(f'{{"id": "{QUERY}"}}')
    spec = StreamSpec(name="counts__fork", job="/j.py", checkpoint=str(folder), sink=TABLE)
    return ForkView(
        stream=spec.name,
        origin="counts",
        checkpoint=spec.checkpoint,
        output=TABLE.table,
        batch=None,
        unseen=1,
        batches_left=1,
        input_digest="",
        spec=spec,
    )


@pytest.fixture
def warehouse(base: Base, monkeypatch: pytest.MonkeyPatch) -> Base:
    monkeypatch.setenv(variable("warehouse"), base.server.connection(base.name))
    return base


def test_the_forks_own_batches_are_heard_and_no_others(warehouse: Base, tmp_path: Path) -> None:
    fork, database = view(tmp_path), ForkSink()
    assert database.newest(fork) is None, "there is no batch table yet"
    mine, other = warehouse.sink("scratch.counts"), warehouse.sink("elsewhere.counts")
    mine.write(batch(0, [(1, 1)]))
    with database.listen(fork) as commits:
        other.write(batch(0, [(1, 1)]))
        mine.write(batch(1, [(2, 2)]))
        heard = [commits.next(5.0), commits.next(5.0)]
        assert [each for each in heard if each is not None] == [1]
        assert commits.next(0.1) is None
    assert database.newest(fork) == 1
    stranger = Batch(query_id="another", batch_id=7, plan="", rows=lambda: [(3, 3)], count=1)
    warehouse.sink("scratch.counts2").write(stranger)
    assert database.newest(fork) == 1


def test_a_database_that_is_away_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable("warehouse"), "postgresql://ann:secret-word@127.0.0.1:1/x")
    with pytest.raises(DrillError, match="cannot be reached") as caught:
        ForkSink().newest(view(tmp_path))
    assert "secret-word" not in str(caught.value)


def test_a_launch_hears_of_the_newest_batch_of_the_table_whichever_query_wrote_it(
    warehouse: Base, tmp_path: Path
) -> None:
    spec, variables = view(tmp_path).spec, dict(os.environ)

    def end() -> int | None:
        found = TABLE.end(spec, [QUERY], variables, 0.0)
        return None if found is None else found.batch

    assert end() is None, "there is no table yet"
    own = warehouse.sink("scratch.counts")
    own.write(batch(0, [(1, 1)]))
    assert end() == 0
    assert TABLE.end(spec, [], variables, 0.0) is not None, "a new checkpoint has no query yet"
    warehouse.ask("TRUNCATE scratch.counts")
    assert TABLE.end(spec, [], variables, 0.0) is None, "an emptied table takes another query"
    own.write(batch(1, [(2, 2)]))
    with psycopg.connect(warehouse.server.connection(warehouse.name)) as person:
        person.execute("LOCK TABLE scratch.counts IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(DrillError, match="lock"):
            TABLE.end(spec, [QUERY], variables, 0.0)
