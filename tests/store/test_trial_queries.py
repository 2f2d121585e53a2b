"""What a list over thousands of runs reads."""

from sqlalchemy.dialects import sqlite

from streamwarden.adapters.store import Store
from streamwarden.adapters.store.drills.trials import newest_trials


def test_the_trials_of_a_stream_are_found_by_the_index(store: Store) -> None:
    """And not by a scan of the trials of all streams, or of the runs with their facts."""
    query = newest_trials("orders", 10).compile(dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True})
    plan = store._database.read(lambda connection: connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {query}").all())
    reads = [row.detail for row in plan if "trials" in row.detail or "drills" in row.detail]
    assert reads == ["SEARCH trials USING INDEX ix_trials_stream_drill_started_at (stream=?)"]
