"""The health monitor and a stream of several queries."""

from __future__ import annotations

from pathlib import Path

from streamwarden.adapters.store import Store
from streamwarden.health.incidents.incident import Incident
from streamwarden.health.verdict import Status, Verdict
from streamwarden.lifecycle.queries import QueryRecord
from streamwarden.services.monitoring.health_monitor import HealthMonitor
from streamwarden.stream.spec import SourceSpec
from support.streams.monitored import QUERY, T0, Stream, by_check, me
from support.streams.queries import query_record


class Pair:
    """A stream `pair` whose driver, this process, runs the queries `left` and `right`, each on its own checkpoint."""

    def __init__(self, home: Path, store: Store) -> None:
        self.store = store
        self.left, self.right = Stream(home, store, "left"), Stream(home, store, "right")
        self.whole = Stream(home, store, "pair", source=SourceSpec())
        self.whole.drive(me())
        for name, query in {"left": self.left, "right": self.right}.items():
            query.name = f"pair/{name}"
            query.run(range(10))
            store.queries.started(self.record(name, query))

    def record(self, name: str, query: Stream) -> QueryRecord:
        return query_record(
            "pair", name, driver="pair-1", at=T0 - 590, checkpoint=str(query.checkpoint), query_id=QUERY
        )

    def judge(self) -> dict[str, dict[str, Verdict]]:
        report = HealthMonitor(self.store).evaluate([self.whole.spec], T0)
        return {name: by_check(health.verdicts) for name, health in report.streams.items()}


def test_each_of_several_queries_is_judged_by_its_own_batches_and_its_own_trigger(tmp_path: Path, store: Store) -> None:
    """The file's trigger is 10 s, the queries' own is 7 s; the driver is judged once."""
    found = Pair(tmp_path, store).judge()
    assert found.keys() == {"pair", "pair/left", "pair/right"}
    assert "restart_loop" in found["pair"]
    assert "state_size" not in found["pair"]
    for name in ("pair/left", "pair/right"):
        assert "restart_loop" not in found[name]
        assert found[name]["query_ended"].status is Status.OK
        assert found[name]["batch_longer_than_trigger"].evidence["trigger_s"] == 7.0


def test_a_query_that_failed_is_an_incident_of_this_query_alone(tmp_path: Path, store: Store) -> None:
    pair = Pair(tmp_path, store)
    store.queries.ended("pair", "left", pair.record("left", pair.left).run_id, T0 - 60, "ValueError: poison")
    pair.judge()
    (incident,) = [each for each in store.incidents.open() if each.check == "query_ended"]
    assert (incident.stream, incident.status) == ("pair/left", Status.CRITICAL)
    assert "ValueError: poison" in incident.reason


def test_what_is_judged_no_more_leaves_neither_verdict_nor_incident(tmp_path: Path, store: Store) -> None:
    """The stream had one query, judged under its own name, until its script started two."""
    pair = Pair(tmp_path, store)
    old = Verdict(stream="pair", check="state_size", status=Status.CRITICAL, at=T0 - 60, value=9e9, unit="bytes")
    store.verdicts.save([old])
    store.incidents.save(
        Incident(
            incident_id="old",
            stream="pair",
            check="state_size",
            status=Status.CRITICAL,
            opened_at=T0 - 60,
            updated_at=T0 - 60,
            reason="9 GB",
            advice="",
            peak=Status.CRITICAL,
        )
    )
    pair.judge()
    assert "state_size" not in {each.check for each in store.verdicts.latest("pair")}
    assert [each.incident_id for each in store.incidents.open("pair")] == []
    assert {each.stream for each in store.verdicts.latest()} == {"pair", "pair/left", "pair/right"}


def test_batches_of_each_query_are_filled_in_from_its_own_logs(tmp_path: Path, store: Store) -> None:
    pair = Pair(tmp_path, store)
    pair.right.run(range(10, 13), reported=False)
    pair.judge()
    assert sorted(each.batch_id for each in store.batches.window("pair/right")) == list(range(13))
    assert [each.batch_id for each in store.batches.window("pair/left")] == list(range(10))
