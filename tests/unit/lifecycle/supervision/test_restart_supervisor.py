"""What a supervisor does next, and the loop of `streamwarden start --supervise`, without Spark, Airflow or a clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from streamwarden.errors import LeaseHeld, StoreError
from streamwarden.lifecycle.driver import DriverEvent, DriverRecord, ExitKind, ExitRecord, ProcessIdentity
from streamwarden.lifecycle.supervision.restarter import SUPERVISED
from streamwarden.lifecycle.supervision.stop import Desired, DesiredState, StopRequest
from streamwarden.lifecycle.supervision.supervisor import (
    Blind,
    Down,
    Finished,
    Hold,
    Launch,
    Move,
    Wait,
    Watch,
    gave_up,
    next_move,
    supervise,
)
from streamwarden.stream.spec import Budget, RestartPolicy, StreamSpec

POLICY = RestartPolicy(initial=10, factor=2, cap=60, budget=Budget(count=2, per=3600))
SPEC = StreamSpec(name="s", job="/j.py", checkpoint="/c", restart=POLICY)


@dataclass
class World:
    """A stream's books in memory, a clock, and a launcher whose drivers live as long as the script says.

    Args:
        script: (seconds of life, how it ends) of each driver in turn; one that never ends is watched until `until`.
    """

    script: list[tuple[float, ExitKind]] = field(default_factory=list)
    now: float = 1000.0
    records: dict[str, DriverRecord] = field(default_factory=dict)
    log: list[DriverEvent] = field(default_factory=list)
    state: DesiredState | None = None
    launches: list[float] = field(default_factory=list)
    curable: bool = True
    refuse: int = 0
    at: dict[float, Callable[[], None]] = field(default_factory=dict)
    requests: dict[str, StopRequest] = field(default_factory=dict)
    store_is_down: bool = False
    declared: StreamSpec = SPEC
    jobs: list[str] = field(default_factory=list)
    while_launching: Callable[[], None] = lambda: None

    # DriverRepository
    def launched(self, record: DriverRecord) -> None:
        self.records[record.driver_id] = record

    def bound(self, driver_id: str, process: ProcessIdentity) -> None: ...
    def started(self, driver_id: str, query_id: str, run_id: str, at: float) -> None: ...
    def exited(self, driver_id: str, exit: ExitRecord) -> None:
        self.records[driver_id] = replace(self.records[driver_id], exit=exit)

    def event(self, event: DriverEvent) -> None:
        self.log.append(event)

    def get(self, driver_id: str) -> DriverRecord | None:
        return self.records.get(driver_id)

    def latest(self, stream: str) -> DriverRecord | None:
        if self.store_is_down:
            raise StoreError("the database server cannot be reached")
        return max(self.records.values(), key=lambda record: record.launched_at, default=None)

    def history(self, stream: str, since: float) -> list[DriverRecord]:
        times = ((each, each.exit.ended_at if each.exit else each.launched_at) for each in self.records.values())
        return [record for record, newest in times if newest >= since]

    def events(self, driver_id: str) -> list[DriverEvent]:
        return [event for event in self.log if event.driver_id == driver_id]

    # StopRepository
    def request(self, request: StopRequest) -> None: ...
    def pending(self, driver_id: str) -> StopRequest | None:
        return self.requests.get(driver_id)

    def set_desired(self, state: DesiredState) -> None:
        self.state = state

    def desired(self, stream: str) -> DesiredState | None:
        return self.state

    # Launcher
    @dataclass
    class Seen:
        alive: bool
        exit: ExitRecord | None

    @dataclass
    class Begun:
        record: DriverRecord
        reattached: bool = False

    def start(self, spec: StreamSpec, *, launched_by: str) -> World.Begun:
        if self.refuse:
            self.refuse -= 1
            raise LeaseHeld("a launch is under way")
        record = DriverRecord(
            driver_id=f"d{len(self.records)}",
            stream=spec.name,
            checkpoint=spec.checkpoint,
            token=len(self.records),
            folder="/f",
            launched_by=launched_by,
            launched_at=self.now,
            started_at=self.now,
        )
        self.while_launching()
        self.launches.append(self.now)
        self.jobs.append(spec.job)
        self.launched(record)
        return World.Begun(record)

    def request_stop(self, stream: str, *, requested_by: str, reason: str) -> None:
        newest = self.latest(stream)
        assert newest is not None
        self.requests[newest.driver_id] = StopRequest(
            driver_id=newest.driver_id,
            requested_by=requested_by,
            reason=reason,
            requested_at=self.now,
            batch_deadline=self.now + 120,
            kill_deadline=self.now + 150,
        )

    def observe(self, driver_id: str) -> World.Seen:
        record = self.records[driver_id]
        life, kind = self.script[int(driver_id[1:])] if self.script else (float("inf"), ExitKind.FAILED)
        ends = record.launched_at + life
        if record.exit is None and self.now >= ends:
            self.exited(driver_id, ExitRecord(kind=kind, ended_at=ends, curable=self.curable))
        exit = self.records[driver_id].exit
        return World.Seen(alive=exit is None, exit=exit)

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for at in [at for at in self.at if at <= self.now]:
            self.at.pop(at)()

    # What the tests do with it
    def want(self, desired: Desired, by: str = "ann") -> None:
        self.state = DesiredState(stream="s", desired=desired, changed_by=by, reason="r", changed_at=self.now)

    def move(self, watched: str | None = None, since: float | None = None) -> Move:
        return next_move(
            "s",
            POLICY,
            drivers=self,
            stops=self,
            observe=self.observe,
            now=self.now,
            since=self.now if since is None else since,
            watched=watched,
        )

    def run(self) -> tuple[Down | Finished, list[Move | Blind]]:
        moves: list[Move | Blind] = []
        end = supervise(
            lambda: self.declared,
            launcher=self,
            drivers=self,
            stops=self,
            launched_by="test",
            clock=lambda: self.now,
            sleep=self.sleep,
            announce=moves.append,
        )
        return end, moves


def test_a_stream_that_never_ran_is_launched() -> None:
    """No driver and no desired state: the stream should run."""
    assert World().move() == Launch(reason="first launch")


def test_a_living_driver_is_watched_whoever_asks() -> None:
    """A retry, a cleared task and a second supervisor all find the same driver."""
    world = World()
    world.start(SPEC, launched_by="somebody")
    assert world.move() == Watch(driver_id="d0")
    assert world.move(watched="d0") == Watch(driver_id="d0")


def test_a_living_driver_is_watched_also_while_it_is_being_stopped() -> None:
    """The stop request is obeyed by the driver; the supervisor follows until it has ended."""
    world = World()
    world.start(SPEC, launched_by="somebody")
    world.want(Desired.STOPPED)
    assert isinstance(world.move(), Watch)


def test_a_stopped_stream_is_held_until_somebody_wants_it() -> None:
    """Who stopped it and why is told; the start that follows is immediate."""
    world = World(script=[(5, ExitKind.STOPPED)])
    world.start(SPEC, launched_by="somebody")
    world.want(Desired.STOPPED, by="ann")
    world.now += 10
    held = world.move(watched="d0")
    assert isinstance(held, Hold)
    assert held.state.changed_by == "ann"
    world.want(Desired.RUNNING)
    assert isinstance(world.move(), Launch)


def test_a_clear_during_the_backoff_does_not_skip_it() -> None:
    """A cleared task asks anew and is told to wait for the rest."""
    world = World(script=[(5, ExitKind.KILLED)])
    world.start(SPEC, launched_by="somebody")
    world.now += 8
    assert world.move() == Wait(until=1015, reason="killed", attempt=1)
    assert world.move(watched="d0") == Wait(until=1015, reason="killed", attempt=1)


def test_a_start_by_a_person_cuts_the_backoff_and_forgives() -> None:
    """They know something that the policy does not."""
    world = World(script=[(5, ExitKind.KILLED)])
    world.start(SPEC, launched_by="somebody")
    world.now += 8
    world.move()
    world.want(Desired.RUNNING)
    assert isinstance(world.move(), Launch)


def test_an_ended_query_is_finished_only_for_the_one_who_watched_it() -> None:
    """The next run of the DAG starts it again, as its schedule wants."""
    world = World(script=[(5, ExitKind.COMPLETED)])
    world.start(SPEC, launched_by="somebody")
    world.now += 10
    assert isinstance(world.move(watched="d0"), Finished)
    assert isinstance(world.move(), Launch)


def test_out_of_budget_it_goes_down_and_the_next_start_has_a_fresh_budget() -> None:
    """Three failures with a budget of two; then a person starts it again."""
    world = World(script=[(1, ExitKind.FAILED)] * 6)
    end, moves = world.run()
    assert isinstance(end, Down)
    assert end.verdict.exhausted
    assert len(world.launches) == 3
    assert [type(move) for move in moves].count(Wait) == 2
    assert [event.kind for event in world.log if event.kind != SUPERVISED] == ["gave_up"]
    again, _ = world.run()
    assert isinstance(again, Down)
    assert len(world.launches) == 6, "the second start had two restarts of its own"


def test_each_driver_that_it_follows_is_recorded_once() -> None:
    """The health monitor tells them from drivers that no supervisor restarts: one that lives for a second too."""
    world = World(script=[(30, ExitKind.FAILED), (1, ExitKind.FAILED), (30, ExitKind.FAILED)])
    world.start(SPEC, launched_by="ann")  # by hand, before the supervisor
    world.run()
    assert [event.driver_id for event in world.log if event.kind == SUPERVISED] == ["d0", "d1", "d2"]


def test_the_backoff_is_kept_between_launches() -> None:
    """At least 10 s after the first exit and 20 s after the second, and not much later."""
    world = World(script=[(1, ExitKind.FAILED)] * 3)
    world.run()
    first, second, third = world.launches
    assert 11 <= second - first <= 14
    assert 21 <= third - second <= 24


def test_what_a_restart_cannot_cure_is_launched_once() -> None:
    """No second driver is tried."""
    world = World(script=[(1, ExitKind.FAILED)], curable=False)
    end, _ = world.run()
    assert isinstance(end, Down)
    assert not end.verdict.exhausted
    assert len(world.launches) == 1


def test_a_restart_wish_launches_again_at_once() -> None:
    """The driver stops at a batch boundary, the stream stays wanted: no back-off, no budget."""
    world = World(script=[(5, ExitKind.STOPPED), (5, ExitKind.STOPPED), (5, ExitKind.COMPLETED)])
    end, _ = world.run()
    assert isinstance(end, Finished)
    assert all(later - earlier <= 7 for earlier, later in zip(world.launches, world.launches[1:], strict=False))


def test_an_upgrade_changes_the_job_of_the_next_launch() -> None:
    """The stream's file is read for each launch: the old version must not start on the state of the new one."""
    world = World(script=[(10, ExitKind.STOPPED), (5, ExitKind.COMPLETED)])

    def upgraded() -> None:
        world.declared = replace(SPEC, job="/new.py")
        world.want(Desired.RUNNING)

    world.at = {1010.0: lambda: world.want(Desired.STOPPED), 1100.0: upgraded}
    world.run()
    assert world.jobs == ["/j.py", "/new.py"]


def test_a_claim_that_is_under_way_is_waited_for() -> None:
    """Another launcher holds the lease for a moment: no error, no second driver."""
    world = World(script=[(5, ExitKind.COMPLETED)], refuse=3)
    end, _ = world.run()
    assert isinstance(end, Finished)
    assert len(world.launches) == 1


def test_a_stream_is_stopped_and_started_under_its_supervisor() -> None:
    """Stopped at 1010, started at 1100: the second driver is launched right then, and not before."""
    world = World(script=[(10, ExitKind.STOPPED), (5, ExitKind.COMPLETED)])
    world.at = {1010.0: lambda: world.want(Desired.STOPPED), 1100.0: lambda: world.want(Desired.RUNNING)}
    end, moves = world.run()
    assert isinstance(end, Finished)
    assert any(isinstance(move, Hold) for move in moves)
    assert 1100 <= world.launches[1] <= 1102


@pytest.mark.parametrize("since", [999.0, 1001.0])
def test_a_wish_older_than_the_failure_forgives_nothing(since: float) -> None:
    """Only a start after the exit speaks about that exit."""
    world = World(script=[(5, ExitKind.FAILED)])
    world.state = DesiredState(stream="s", desired=Desired.RUNNING, changed_by="a", reason="r", changed_at=since)
    world.start(SPEC, launched_by="somebody")
    world.now += 6
    assert isinstance(world.move(), Wait)


def test_event_names_the_reason_and_the_next_step() -> None:
    """For whoever reads the driver's events later."""
    world = World(script=[(1, ExitKind.FAILED)], curable=False)
    end, _ = world.run()
    assert isinstance(end, Down)
    event = gave_up(end)
    assert (event.driver_id, event.at) == (end.driver_id, end.at)
    assert event.detail["reason"] == end.verdict.reason
    assert event.detail["next_step"] == end.verdict.next_step


def test_what_was_left_down_stays_down_for_a_try_that_follows_one_that_died() -> None:
    """The decision was recorded, and its process died before anybody learned of it; the next try belongs to the same
    supervision and repeats it, in the same words. A run that begins later is a person's start."""
    began, world = 1000.0, World(script=[(1, ExitKind.FAILED)] * 2, curable=False)
    end, _ = world.run()
    world.now += 60
    assert world.move(since=began) == end
    assert isinstance(world.move(since=world.now), Launch)
    world.want(Desired.RUNNING)
    assert isinstance(world.move(since=began), Launch), "a start is a start, whoever still supervises"


def test_a_second_supervisor_starts_nothing_that_the_first_left_down() -> None:
    """The DAG and `start --supervise` beside each other: one of them is a second later."""
    world = World(script=[(30, ExitKind.FAILED)] * 2, curable=False)
    began = world.now
    first, _ = world.run()
    assert isinstance(first, Down)
    assert isinstance(world.move(watched="d0", since=began), Down)
    assert len(world.launches) == 1


@pytest.mark.parametrize(
    ("kind", "curable", "move"),
    [(ExitKind.FAILED, False, Down), (ExitKind.FENCED, True, Wait), (ExitKind.KILLED, True, Launch)],
)
def test_the_end_of_a_driver_that_ran_for_weeks_is_judged_as_any_other(
    kind: ExitKind, curable: bool, move: type[Move]
) -> None:
    """Nothing else was launched within the day that is looked at."""
    weeks = 21 * 86400.0
    world = World(script=[(weeks, kind)], curable=curable)
    world.start(SPEC, launched_by="somebody")
    world.now += weeks + 1
    assert isinstance(world.move(), move)


def test_a_stop_that_is_asked_for_in_the_middle_of_a_launch_reaches_the_driver() -> None:
    """Who asked saw no living driver; the one that was just being launched is told after all, and only once."""
    world = World(script=[(1, ExitKind.KILLED), (60, ExitKind.STOPPED)])
    world.start(SPEC, launched_by="somebody")
    world.while_launching = lambda: world.want(Desired.STOPPED, by="ann")
    world.at = {1200.0: lambda: world.want(Desired.RUNNING, by="bob")}
    world.script.append((5, ExitKind.COMPLETED))
    world.at[1199.0] = lambda: setattr(world, "while_launching", lambda: None)
    end, _ = world.run()
    assert isinstance(end, Finished)
    assert list(world.requests) == ["d1"]
    assert (world.requests["d1"].requested_by, world.requests["d1"].reason) == ("ann", "r")
    assert world.requests["d1"].requested_at <= world.launches[1] + 2


def test_a_store_that_is_away_is_waited_for() -> None:
    """Ten minutes without it: said once, nothing is launched, and then it goes on as before."""
    world = World(script=[(700, ExitKind.COMPLETED)])
    world.at = {
        1010.0: lambda: setattr(world, "store_is_down", True),
        1610.0: lambda: setattr(world, "store_is_down", False),
    }
    end, moves = world.run()
    assert isinstance(end, Finished)
    assert [type(move) for move in moves] == [Launch, Watch, Blind, Watch, Finished]
    assert len(world.launches) == 1
