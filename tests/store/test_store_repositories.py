"""Drivers, stops, verdicts, incidents: written once, read back the same, repeated without effect."""

from dataclasses import asdict, replace
from typing import Any

import pytest

from streamwarden.adapters.store import Store
from streamwarden.adapters.store.tables import drivers
from streamwarden.errors import StoreError
from streamwarden.health.evaluations import EvaluationRecord, Evaluator
from streamwarden.health.incidents.delivery import Delivery
from streamwarden.health.incidents.incident import Incident
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Measurement
from streamwarden.lifecycle.driver import DriverEvent, DriverRecord, ExitKind, ExitRecord, ProcessIdentity
from streamwarden.lifecycle.supervision.stop import Desired, DesiredState, StopRequest
from support.children import Line, children

JVM = ProcessIdentity(host="node-1", pid=4711, started_at=1000)
DRIVER = DriverRecord(
    driver_id="driver-1",
    stream="flights",
    checkpoint="/data/checkpoints/flights",
    token=1,
    folder="/data/drivers/flights/driver-1",
    launched_by="dag run 1",
    launched_at=10.5,
)
KILLED = ExitRecord(kind=ExitKind.KILLED, ended_at=50, signal=9, message="killed", cut_batch=True, next_step="none")
INCIDENT = Incident(
    incident_id="incident-1",
    stream="flights",
    check="state_size",
    status=Status.WARNING,
    opened_at=100,
    updated_at=100,
    reason="2 GB is above 1 GB",
    advice="tighten the watermark",
    evidence={"batch_id": 7, "sizes": [1, 2]},
    good=2,
)


class TestDrivers:
    def test_a_driver_from_launch_to_exit(self, store: Store) -> None:
        store.drivers.launched(DRIVER)
        store.drivers.bound("driver-1", JVM)
        store.drivers.started("driver-1", "query", "run", 20)
        store.drivers.exited("driver-1", KILLED)
        whole = replace(DRIVER, process=JVM, query_id="query", run_id="run", started_at=20, exit=KILLED)
        assert store.drivers.get("driver-1") == whole
        assert store.drivers.latest("flights") == whole
        assert store.drivers.history("flights", since=KILLED.ended_at) == (whole,)
        assert store.drivers.history("flights", since=KILLED.ended_at + 0.1) == ()

    def test_a_driver_can_be_recorded_whole(self, store: Store) -> None:
        whole = replace(DRIVER, process=JVM, query_id="query", run_id="run", started_at=20, exit=KILLED)
        store.drivers.launched(whole)
        assert store.drivers.get("driver-1") == whole

    def test_an_exit_that_was_stored_before_causes_had_codes_is_read(self, store: Store) -> None:
        store.drivers.launched(replace(DRIVER, exit=replace(KILLED, cause="out_of_memory")))
        before = {key: value for key, value in asdict(KILLED).items() if key != "cause"}
        store._database.write(lambda connection: connection.execute(drivers.update().values(exit=before)))
        assert store.drivers.get("driver-1") == replace(DRIVER, exit=KILLED)

    def test_recording_the_launch_again_takes_nothing_back(self, store: Store) -> None:
        store.drivers.launched(DRIVER)
        store.drivers.bound("driver-1", JVM)
        store.drivers.launched(DRIVER)
        found = store.drivers.get("driver-1")
        assert found is not None
        assert found.process == JVM

    def test_the_first_recorded_exit_wins(self, store: Store) -> None:
        store.drivers.launched(DRIVER)
        store.drivers.exited("driver-1", KILLED)
        store.drivers.exited("driver-1", ExitRecord(kind=ExitKind.FAILED, ended_at=60))
        found = store.drivers.get("driver-1")
        assert found is not None
        assert found.exit == KILLED

    def test_of_two_observers_that_record_an_exit_at_once_one_wins(self, store: Store) -> None:
        store.drivers.launched(DRIVER)

        def observe(line: Line) -> None:
            line.wait()
            mine = ExitRecord(kind=ExitKind.FAILED, ended_at=60, message=str(id(line)))
            store.drivers.exited("driver-1", mine)
            found = store.drivers.get("driver-1")
            assert found is not None
            assert found.exit is not None
            line.say(found.exit.message)

        with children(5, observe) as observers:
            for child in observers:
                child.tell("go")
            assert len({child.hear() for child in observers}) == 1

    def test_a_driver_that_was_never_launched_cannot_end(self, store: Store) -> None:
        with pytest.raises(StoreError, match="never recorded as launched") as caught:
            store.drivers.exited("driver-1", KILLED)
        assert "spec.json" in caught.value.next_step
        assert store.drivers.get("driver-1") is None

    def test_the_latest_driver_is_the_one_launched_last(self, store: Store) -> None:
        second = replace(DRIVER, driver_id="driver-2", token=2, launched_at=99)
        store.drivers.launched(second)
        store.drivers.launched(DRIVER)
        assert store.drivers.latest("flights") == second
        assert store.drivers.latest("other") is None
        assert store.drivers.history("flights", since=0) == (DRIVER, second)

    def test_a_history_has_a_driver_that_was_launched_before_it_and_ended_in_it(self, store: Store) -> None:
        store.drivers.launched(DRIVER)
        assert store.drivers.history("flights", since=10.5) == (DRIVER,)
        assert store.drivers.history("flights", since=10.6) == ()
        store.drivers.exited("driver-1", KILLED)
        assert store.drivers.history("flights", since=10.6) == (replace(DRIVER, exit=KILLED),)

    def test_a_history_has_all_that_were_launched_after_its_first(self, store: Store) -> None:
        """A driver that was cut off ends long after the one that took its place was launched."""
        second = replace(DRIVER, driver_id="driver-2", token=2, launched_at=DRIVER.launched_at + 1)
        for record in (replace(DRIVER, exit=KILLED), second):
            store.drivers.launched(record)
        found = store.drivers.history("flights", since=KILLED.ended_at)
        assert [each.driver_id for each in found] == ["driver-1", "driver-2"]

    def test_histories_of_many_streams_at_once(self, store: Store) -> None:
        other = replace(DRIVER, driver_id="driver-2", stream="other")
        for record in (DRIVER, other, replace(DRIVER, driver_id="driver-3", stream="not asked for")):
            store.drivers.launched(record)
        found = store.drivers.histories(["flights", "other", "nobody"], since=0)
        assert found == {"flights": (DRIVER,), "other": (other,), "nobody": ()}

    def test_the_same_event_is_kept_once_and_others_in_order(self, store: Store) -> None:
        term = DriverEvent(driver_id="driver-1", at=2, kind="signal", detail={"signal": "SIGTERM"})
        kill = replace(term, detail={"signal": "SIGKILL"})
        stop = DriverEvent(driver_id="driver-1", at=1, kind="stop requested")
        for event in (term, kill, stop, term):
            store.drivers.event(event)
        assert store.drivers.events("driver-1") == (stop, term, kill)


class TestStops:
    REQUEST = StopRequest(
        driver_id="driver-1",
        requested_by="alice",
        reason="upgrade",
        requested_at=100,
        batch_deadline=220,
        kill_deadline=250,
    )

    def test_a_request_is_pending_for_its_driver_only(self, store: Store) -> None:
        store.stops.request(self.REQUEST)
        assert store.stops.pending("driver-1") == self.REQUEST
        assert store.stops.pending("driver-2") is None

    def test_the_latest_request_counts(self, store: Store) -> None:
        sooner = replace(self.REQUEST, requested_by="bob", requested_at=110, batch_deadline=111, restart=True)
        for request in (sooner, self.REQUEST, sooner):
            store.stops.request(request)
        assert store.stops.pending("driver-1") == sooner

    def test_what_people_want_of_a_stream(self, store: Store) -> None:
        assert store.stops.desired("flights") is None
        stopped = DesiredState(
            stream="flights", desired=Desired.STOPPED, changed_by="alice", reason="upgrade", changed_at=100
        )
        running = replace(stopped, desired=Desired.RUNNING, changed_at=200)
        for state in (stopped, running):
            store.stops.set_desired(state)
            assert store.stops.desired("flights") == state

    def test_the_streams_that_are_wanted_stopped(self, store: Store) -> None:
        wishes = {"flights": Desired.STOPPED, "orders": Desired.STOPPED, "sessions": Desired.RUNNING}
        for at, (stream, wish) in enumerate([*wishes.items(), ("orders", Desired.RUNNING)]):
            state = DesiredState(stream=stream, desired=wish, changed_by="alice", reason="upgrade", changed_at=at)
            store.stops.set_desired(state)
        assert store.stops.wanted_stopped() == {"flights"}


class TestVerdicts:
    def verdict(self, status: Status, at: float, check: str = "state_size", stream: str = "flights") -> Verdict:
        evidence = {"batch": 7, "field": "memoryUsedBytes", "nested": {"values": [1, 2.5, None]}}
        return Verdict(
            stream=stream, check=check, status=status, at=at, value=2e9, unit="bytes", reason="r", evidence=evidence
        )

    def test_the_newest_of_each_check(self, store: Store) -> None:
        old = self.verdict(Status.OK, 1)
        new = self.verdict(Status.CRITICAL, 2)
        other = self.verdict(Status.OK, 1, check="progress_stalled")
        store.verdicts.save([new, old, other])
        store.verdicts.save([old])
        assert store.verdicts.latest("flights") == (other, new)
        assert store.verdicts.latest("nobody") == ()

    def test_all_streams(self, store: Store) -> None:
        store.verdicts.save([self.verdict(Status.OK, 1, stream=stream) for stream in ("b", "a")])
        assert [verdict.stream for verdict in store.verdicts.latest()] == ["a", "b"]

    def test_only_changes_are_history(self, store: Store) -> None:
        for at, status in enumerate((Status.OK, Status.OK, Status.WARNING, Status.WARNING, Status.OK)):
            store.verdicts.save([self.verdict(status, at)])
        assert [(verdict.at, verdict.status) for verdict in store.verdicts.changes("flights", 0)] == [
            (0, Status.OK),
            (2, Status.WARNING),
            (4, Status.OK),
        ]
        assert len(store.verdicts.changes("flights", 3)) == 1

    @pytest.mark.parametrize("said", [{}, {"reason": "another", "value": None}, {"evidence": {"batch": 8}}])
    def test_a_verdict_with_the_same_status_is_renewed(self, said: dict[str, Any], store: Store) -> None:
        before, after = self.verdict(Status.OK, 1), replace(self.verdict(Status.OK, 2), **said)
        store.verdicts.save([before])
        previous = {"flights": {"state_size": store.verdicts.latest()[0]}}
        store.verdicts.save([after, self.verdict(Status.OK, 2, check="backlog")], previous)
        assert store.verdicts.latest() == (self.verdict(Status.OK, 2, check="backlog"), after)
        assert len(store.verdicts.changes("flights", 0)) == 2

    @pytest.mark.parametrize("reason", ["r", "another"])
    def test_what_another_evaluator_stored_meanwhile_is_not_taken_for_the_same(self, reason: str, store: Store) -> None:
        """`watch` and the health DAG evaluate side by side."""
        store.verdicts.save([self.verdict(Status.OK, 1)])
        previous = {"flights": {"state_size": store.verdicts.latest()[0]}}
        store.verdicts.save([self.verdict(Status.CRITICAL, 2)])
        newest = replace(self.verdict(Status.OK, 3), reason=reason)
        store.verdicts.save([newest], previous)
        assert store.verdicts.latest() == (newest,)
        statuses = [verdict.status for verdict in store.verdicts.changes("flights", 0)]
        assert statuses == [Status.OK, Status.CRITICAL, Status.OK]

    def test_no_verdict_is_no_work(self, store: Store) -> None:
        store.verdicts.save([])
        assert store.verdicts.latest() == ()


class TestIncidents:
    def test_saved_updated_and_resolved(self, store: Store) -> None:
        store.incidents.save(INCIDENT)
        assert store.incidents.open() == store.incidents.open("flights") == (INCIDENT,)
        assert store.incidents.open("other") == ()
        worse = replace(INCIDENT, status=Status.CRITICAL, peak=Status.CRITICAL, updated_at=160, good=0)
        store.incidents.save(worse)
        assert store.incidents.open() == (worse,)
        ended = replace(worse, status=Status.OK, resolved_at=200)
        store.incidents.save(ended)
        assert store.incidents.open() == ()
        assert store.incidents.recent() == (ended,)

    def test_two_open_incidents_of_one_stream_and_check_are_refused(self, store: Store) -> None:
        store.incidents.save(INCIDENT)
        second = replace(INCIDENT, incident_id="incident-2")
        with pytest.raises(StoreError, match="open incident of check state_size already"):
            store.incidents.save(second)
        store.incidents.save(replace(second, check="memory"))
        store.incidents.save(replace(second, stream="other", incident_id="incident-3"))
        store.incidents.save(replace(INCIDENT, resolved_at=200))
        store.incidents.save(replace(second, incident_id="incident-4"))
        assert len(store.incidents.open()) == 3

    def test_an_incident_that_was_resolved_meanwhile_is_not_reopened(self, store: Store) -> None:
        """An evaluation read it, a person stopped the stream, and the evaluation saves its update."""
        ended = replace(INCIDENT, status=Status.OK, resolved_at=200, reason="ann stopped the stream")
        store.incidents.save(INCIDENT)
        store.incidents.save(ended)
        store.incidents.save(replace(INCIDENT, updated_at=201))
        assert store.incidents.recent() == (ended,)

    def test_many_are_updated_at_once_and_none_is_reopened(self, store: Store) -> None:
        ended = replace(INCIDENT, status=Status.OK, resolved_at=200, reason="ann stopped the stream")
        other = replace(INCIDENT, incident_id="incident-2", check="backlog")
        for incident in (INCIDENT, other, ended):
            store.incidents.save(incident)
        worse = replace(other, status=Status.CRITICAL, evidence={"batch": 8}, updated_at=201)
        store.incidents.update([replace(INCIDENT, updated_at=201), worse])
        assert store.incidents.open() == (worse,)
        assert {each.incident_id: each for each in store.incidents.recent()}["incident-1"] == ended
        store.incidents.update([replace(worse, status=Status.OK, resolved_at=202)])
        assert store.incidents.open() == ()

    def test_the_streams_that_should_be_stopped_do_not_alarm(self, store: Store) -> None:
        for number, stream in enumerate(("flights", "flights/arrivals", "flights_late", "clicks")):
            store.incidents.save(replace(INCIDENT, incident_id=stream, stream=stream, opened_at=number))
        wanted = DesiredState(
            stream="flights", desired=Desired.STOPPED, changed_by="ann", reason="holiday", changed_at=1
        )
        store.stops.set_desired(wanted)
        assert [each.stream for each in store.incidents.alarming()] == ["flights_late", "clicks"]
        store.stops.set_desired(replace(wanted, desired=Desired.RUNNING))
        assert len(store.incidents.alarming()) == 4

    def test_a_cause_and_its_consequences(self, store: Store) -> None:
        linked = replace(INCIDENT, incident_id="backlog", check="backlog", consequence_of="incident-1")
        store.incidents.save(replace(INCIDENT, status=Status.OK, resolved_at=200))
        store.incidents.save(linked)
        assert store.incidents.consequences("incident-1") == (linked,)
        assert [each.incident_id for each in store.incidents.ended(200)] == ["incident-1"]
        assert store.incidents.ended(201) == ()

    def test_recent_ones_newest_first(self, store: Store) -> None:
        for number in range(5):
            store.incidents.save(
                replace(INCIDENT, incident_id=str(number), opened_at=number, updated_at=number, resolved_at=number + 1)
            )
        assert [incident.incident_id for incident in store.incidents.recent(limit=3)] == ["4", "3", "2"]
        assert store.incidents.recent("other") == ()

    def test_recent_ones_of_some_streams_are_found_behind_many_of_another(self, store: Store) -> None:
        ended = replace(INCIDENT, resolved_at=1)
        for number in range(30):
            store.incidents.save(replace(ended, incident_id=f"noise-{number}", stream="noise", opened_at=100 + number))
        for number, name in enumerate(("pair", "pair/left", "pair_2")):
            store.incidents.save(replace(ended, incident_id=name, stream=name, opened_at=number))
        assert set(store.incidents.streams()) == {"noise", "pair", "pair/left", "pair_2"}
        found = store.incidents.recent_of({"pair", "pair/left"}, limit=20)
        assert [each.incident_id for each in found] == ["pair/left", "pair"]
        assert [each.incident_id for each in store.incidents.recent_of(["noise"], limit=2)] == ["noise-29", "noise-28"]
        assert store.incidents.recent_of([]) == ()

    def test_incidents_that_ended_since_a_time(self, store: Store) -> None:
        for name, at in {"later": 300, "now": 200, "long ago": 199}.items():
            store.incidents.save(replace(INCIDENT, incident_id=name, resolved_at=at))
        store.incidents.save(replace(INCIDENT, incident_id="open"))
        assert [incident.incident_id for incident in store.incidents.ended(200)] == ["now", "later"]


class TestDeliveries:
    NEW = Delivery(subject="incident-1", channel="slack-1")

    def test_what_was_sent_is_known_of_each_channel(self, store: Store) -> None:
        claimed = store.deliveries.claim(self.NEW, Status.WARNING, 100)
        assert claimed == replace(self.NEW, sent_at=100, sent_status=Status.WARNING, attempts=1)
        assert store.deliveries.of("slack-1") == {"incident-1": claimed}
        assert store.deliveries.of("json-2") == {}

    def test_of_ten_that_want_to_send_one_may(self, store: Store) -> None:
        def claim(line: Line) -> None:
            line.wait()
            line.say(store.deliveries.claim(self.NEW, Status.WARNING, 100) is not None)

        with children(10, claim) as claimants:
            for child in claimants:
                child.tell("go")
            assert sorted(child.hear() for child in claimants) == [False] * 9 + [True]

    def test_a_claim_from_an_old_reading_is_refused(self, store: Store) -> None:
        """Two processes have read the same row. The second one to claim may not send."""
        first = store.deliveries.claim(self.NEW, Status.WARNING, 100)
        assert first is not None
        assert store.deliveries.claim(first, Status.CRITICAL, 200) is not None
        assert store.deliveries.claim(first, Status.CRITICAL, 201) is None

    def test_a_message_that_was_refused_leaves_the_channel_as_it_was(self, store: Store) -> None:
        claimed = store.deliveries.claim(self.NEW, Status.WARNING, 100)
        assert claimed is not None
        store.deliveries.give_back(claimed, self.NEW, 101)
        (found,) = store.deliveries.of("slack-1").values()
        assert (found.sent_at, found.failed_at, found.attempts) == (None, 101, 1)
        assert found.must_wait(110)
        assert not found.must_wait(160)
        again = store.deliveries.claim(found, Status.WARNING, 160)
        assert again is not None
        assert (again.sent_at, again.failed_at) == (160, None)


class TestEvaluations:
    DONE = EvaluationRecord(at=100, evaluator=Evaluator.DAG, host="a", seconds=2.5, streams=3)

    def test_the_newest_of_each_kind_of_process_and_host_is_kept(self, store: Store) -> None:
        newer = replace(self.DONE, at=160, failures=1)
        watch = replace(self.DONE, at=130, evaluator=Evaluator.WATCH)
        for record in (self.DONE, watch, newer):
            store.evaluations.record(record)
        assert store.evaluations.all() == (newer, watch)

    def test_a_host_that_does_not_judge_any_more_is_forgotten(self, store: Store) -> None:
        store.evaluations.record(replace(self.DONE, host="old container"))
        store.evaluations.record(replace(self.DONE, at=100 + 8 * 86400))
        assert [record.host for record in store.evaluations.all()] == ["a"]


class TestDrillSchedules:
    def test_a_drill_counts_from_when_it_was_first_seen_with_its_schedule(self, store: Store) -> None:
        store.drill_schedules.follow({"kill": "@daily", "stop": "@daily"}, 100)
        store.drill_schedules.follow({"kill": "@daily", "stop": "@hourly"}, 200)
        assert store.drill_schedules.since() == {"kill": 100, "stop": 200}

    def test_a_drill_that_is_paused_is_forgotten_and_one_whose_file_broke_is_not(self, store: Store) -> None:
        store.drill_schedules.follow({"kill": "@daily", "stop": "@daily"}, 100)
        store.drill_schedules.follow({}, 200, keep={"stop"})
        assert store.drill_schedules.since() == {"stop": 100}


class TestMeasurements:
    def test_recent_ones_oldest_first(self, store: Store) -> None:
        given = [
            Measurement(stream="flights", name=name, at=at, value=1.5, unit="bytes", source="/proc")
            for at in (1.0, 2.0, 3.0)
            for name in ("memory", "state")
        ]
        store.measurements.add(reversed(given))
        store.measurements.add(given)
        assert store.measurements.recent("flights", since=0) == tuple(given)
        assert store.measurements.recent("flights", since=3.0) == tuple(given[-2:])
        assert store.measurements.recents(["flights", "other"], since=3.0) == {
            "flights": tuple(given[-2:]),
            "other": (),
        }

    def test_no_measurement_is_no_work(self, store: Store) -> None:
        store.measurements.add([])
        assert store.measurements.recent("flights", 0) == ()
