"""Three small streams in the JVM of one group: each ends and starts alone, and the end of the JVM is survived by all.

A supervisor in a thread decides for each stream, as `streamwarden start --supervise` does.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamwarden.adapters import processes
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import DriverRecord, ExitKind, ProcessIdentity
from streamwarden.lifecycle.lease import stream_resource
from streamwarden.sources.files import FilesSource
from streamwarden.stream.spec import RestartPolicy, StateSpec, StreamSpec
from support.spark.drivers import COUNTS, Project, counted, expected_counts, producing, project, until
from support.spark.supervision import supervised

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

NAMES = ("north", "south", "west")


class Group:
    """Three streams that count the same input, each in a session of its own."""

    def __init__(self, made: Project) -> None:
        self.project = made
        self.specs = {
            name: made.spec(
                name,
                COUNTS,
                group="small",
                source=FilesSource(path=str(made.input), max_files_per_trigger=50),
                state=StateSpec(shuffle_partitions=number),
                restart=RestartPolicy(initial=0.5, factor=1.0, cap=0.5),
            )
            for number, name in enumerate(NAMES, 1)
        }

    @contextlib.contextmanager
    def supervised(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for spec in self.specs.values():
                stack.enter_context(supervised(self.project, spec))
            yield

    def works(self, name: str, since: float = 0.0) -> DriverRecord | None:
        """The living driver of the stream, once it has committed a batch of its own, after `since`."""
        driver = self.project.store.drivers.latest(name)
        if driver is None or driver.exit is not None or driver.process is None:
            return None
        commits = Path(self.specs[name].checkpoint) / "commits"
        newest = max((path.stat().st_mtime for path in commits.glob("[0-9]*")), default=0.0)
        return driver if newest > max(driver.launched_at, since) else None

    def all_work(self, besides: set[str] = frozenset()) -> dict[str, DriverRecord]:  # type: ignore[assignment]
        """The drivers of all streams, once each works; none of `besides`."""

        def found() -> dict[str, DriverRecord]:
            working = {name: driver for name in NAMES if (driver := self.works(name)) is not None}
            new = {name: driver for name, driver in working.items() if driver.driver_id not in besides}
            return new if len(new) == len(NAMES) else {}

        return until("three drivers that work", found, told=self.logs)

    def successor(self, driver: DriverRecord) -> DriverRecord:
        def next_one() -> DriverRecord | None:
            newest = self.works(driver.stream)
            return newest if newest is not None and newest.driver_id != driver.driver_id else None

        return until("a successor that works", next_one, told=self.logs)

    def jvm(self, driver: DriverRecord) -> ProcessIdentity:
        found = files.read_membership(Path(driver.folder))
        assert found is not None
        return found

    def logs(self) -> str:
        paths = [*self.project.data.glob("drivers/*/*/driver.log"), *self.project.data.glob("groups/*/*/driver.log")]
        return "\n".join(f"== {path}\n{path.read_text()[-1500:]}" for path in sorted(paths))

    def stop(self) -> None:
        """Stop every stream; each row was counted once, by each of them."""
        made = self.project
        made.publish(2)
        closed = made.published - 1
        for name, spec in self.specs.items():
            until(f"the closed windows of {name}", lambda spec=spec: sum(counted(spec).values()) >= 20 * closed)
            made.fleet.stop(name, requested_by="ann", reason="the end")
        for spec in self.specs.values():
            assert counted(spec) == expected_counts(closed)


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Group]:
    with project(tmp_path) as made:
        made.publish(2)
        yield Group(made)


def partitions(spec: StreamSpec) -> str:
    """The setting of the session with which the first batch was planned."""
    plan = (Path(spec.checkpoint) / "offsets" / "0").read_text().splitlines()[1]
    return str(json.loads(plan)["conf"]["spark.sql.shuffle.partitions"])


def test_each_stream_of_a_group_ends_and_starts_alone_and_all_survive_the_end_of_their_jvm(group: Group) -> None:
    store, fleet = group.project.store, group.project.fleet
    with group.supervised():
        drivers = group.all_work()
        (jvm,) = {group.jvm(driver) for driver in drivers.values()}
        assert len({driver.process for driver in drivers.values()} | {jvm}) == 4, "each has a process of its own"
        assert [partitions(spec) for spec in group.specs.values()] == ["1", "2", "3"], "and a session"
        for name, spec in group.specs.items():
            lease = store.leases.current(spec.checkpoint)
            assert lease is not None
            assert lease.holder == drivers[name].driver_id
            assert lease.resources == (stream_resource(name), lease.checkpoints[0]), "and a lease on nothing else"

        group.project.publish(1)
        fleet.kill(drivers["north"].driver_id)
        successor = group.successor(drivers["north"])
        assert successor.token > drivers["north"].token
        assert group.jvm(successor) == jvm
        assert (Path(drivers["north"].folder) / files.LEFT).exists(), "the host had ended the query of the dead one"
        ended = store.drivers.get(drivers["north"].driver_id)
        assert ended is not None
        assert ended.exit is not None
        assert (ended.exit.kind, ended.exit.signal) == (ExitKind.KILLED, 9)
        group.project.publish(1)
        for name in ("south", "west"):
            until(f"a batch of {name} after that", lambda name=name: group.works(name, since=successor.launched_at))
            latest = store.drivers.latest(name)
            assert latest is not None
            assert latest.driver_id == drivers[name].driver_id, "the neighbours went on"

        before = {"north": successor, "south": drivers["south"], "west": drivers["west"]}
        group.project.publish(1)
        processes.signal_one(jvm, signal.SIGKILL)
        after = group.all_work({driver.driver_id for driver in before.values()})
        (new_jvm,) = {group.jvm(driver) for driver in after.values()}
        assert new_jvm != jvm
        for name, driver in before.items():
            ended = store.drivers.get(driver.driver_id)
            assert ended is not None
            assert ended.exit is not None
            assert (ended.exit.kind, ended.exit.cause) == (ExitKind.FAILED, "group_ended")
            assert "group small" in ended.exit.message
            assert after[name].token > driver.token
    group.stop()


@pytest.mark.full  # above the host ends the query of a dead driver; unit/services/fleet/test_departures has the waiting
def test_without_its_host_the_query_of_a_dead_driver_goes_on_and_nobody_takes_its_place(group: Group) -> None:
    """The negative control: it is the host that ends the query, and a launch waits for it."""
    name, spec = "north", group.specs["north"]
    group.project.start(spec)
    with producing(group.project, every=1.0):
        driver = until("a driver that works", lambda: group.works(name), told=group.logs)
        host = host_of(group.jvm(driver))
        os.kill(host.pid, signal.SIGSTOP)
        try:
            group.project.fleet.kill(driver.driver_id)
            assert driver.process is not None
            until("the end of its process", lambda: not processes.is_alive(driver.process))  # type: ignore[arg-type]
            committed = group.project.committed(spec)
            until("batches that nobody supervises", lambda: group.project.committed(spec) > committed + 1)
            assert group.project.fleet.observe(driver.driver_id).alive, "so it counts as alive"
        finally:
            os.kill(host.pid, signal.SIGCONT)
        exit = group.project.await_end(driver.driver_id)
        assert exit.kind is ExitKind.KILLED
        successor = group.project.start(spec)
        until("a driver that works", lambda: group.works(name), told=group.logs)
        assert successor != driver.driver_id
        for other in ("south", "west"):
            group.project.start(group.specs[other])
        group.all_work()
    group.stop()


def host_of(jvm: ProcessIdentity) -> ProcessIdentity:
    """The Python process that hosts the group."""
    commands = processes.commands()
    (pid,) = [pid for pid in processes.tree(jvm.pid)[1:] if any("group_host" in word for word in commands.get(pid, ()))]
    found = processes.identity(pid)
    assert found is not None
    return found
