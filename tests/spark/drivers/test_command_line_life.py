"""A stream's whole life from the shell, without Airflow.

1. `start` launches a driver and returns once its query runs; a second `start` finds it.
2. `status` and `inspect` show it; `check` judges it.
3. `restart` gives it a new driver that goes on where the last one stopped; an upgrade switches it to another job;
   `drain` stops the drivers of the host.
4. A savepoint that was taken while it ran opens in a fork, and the stream is put back to it, after a fork has tried it.
   `stop` ends it at a batch boundary, and it stays stopped. `history` lists all of it. Without its checkpoint it is not
   started again, unless a person lets it begin anew.
5. `start --supervise` brings back a driver that is killed, and leaves it running on Ctrl-C; `status` shows the crash.

With `--full` beside it, in another folder, the tutorial from its empty folder on: its own commands, in its order.
Nothing is edited.
"""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from importlib.metadata import version
from pathlib import Path

import pytest

from streamwarden.cli.exit_codes import Exit
from streamwarden.lifecycle.upgrades.journal import Step, Upgrade
from streamwarden.services.upgrades.journals import NEW, OLD, Upgrades, write_journal
from streamwarden.services.upgrades.live import LiveStream
from streamwarden.services.upgrades.switching import Switch
from streamwarden.services.workspace import Workspace
from support.airflow.harness import REPOSITORY
from support.command_line import Answer, in_process, in_shell
from support.guides import Page
from support.spark.drivers import COUNTS, QUICK, Project, project, until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(500)]

STREAM = """
name: counts
job: jobs/counts.py
source: {path: input, max_files_per_trigger: 1}
sink: {path: output/counts}
checkpoint: checkpoints/counts
trigger: {processing_time: 200 ms}
state: {shuffle_partitions: 1}
restart: {initial: 10m}   # which no first failure of a stream that worked waits for
health: {thresholds: {batch_longer_than_trigger: {warning: 1000, critical: 2000}}}   # what a busy machine may take
spark:
  master: "local[1]"
  driver_memory: 700 MiB
  conf:
    spark.driver.extraJavaOptions: -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
    spark.sql.codegen.wholeStage: "false"
"""

TUTORIAL = Page((REPOSITORY / "docs" / "tutorial" / "first-stream.md").read_text())


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Project]:
    with project(tmp_path) as made:
        made.job("counts", COUNTS)
        streams = tmp_path / "config" / "streams"
        streams.mkdir(parents=True)
        (streams / "counts.yaml").write_text(STREAM)
        yield made


def command(world: Project, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "streamwarden.cli", "--project", str(world.root), *arguments]


def run(world: Project, *arguments: str) -> Answer:
    return in_shell(world.root, *arguments)


def ask(world: Project, *arguments: str) -> Answer:
    return in_process(world.root, *arguments)


def only_stream(world: Project) -> dict[str, object]:
    return dict(ask(world, "status", "--json").json["streams"][0])


@pytest.fixture(scope="module")
def tutorial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Future[dict[str, Answer]]]:
    """What its commands answer, from the first one to the last but one: `up` has tests of its own."""
    *commands, last = TUTORIAL.commands("streamwarden")
    assert last == "streamwarden up"
    with project(tmp_path_factory.mktemp("tutorial")) as made, ThreadPoolExecutor(1) as beside:
        yield beside.submit(typed, made, commands)


def typed(made: Project, commands: list[str]) -> dict[str, Answer]:
    answers = {}
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "streamwarden"
        if command == "streamwarden check":
            until("all five batches", lambda: made.store.batches.summary("orders").batches >= 5)
        options = QUICK["spark.driver.extraJavaOptions"]
        answers[command] = in_shell(made.root, *arguments, timeout=400, JDK_JAVA_OPTIONS=options)
        assert answers[command].code == Exit.OK, (command, answers[command])
    assert not list((made.data / "quarantine").rglob("*.json"))
    return answers


@pytest.fixture(scope="module", autouse=True)
def beside(request: pytest.FixtureRequest) -> None:
    """The second tier's tutorial begins before the first tier's tests."""
    if request.config.getoption("--full"):
        request.getfixturevalue("tutorial")


def test_a_streams_life_from_the_shell(world: Project) -> None:
    world.publish(3)
    assert only_stream(world)["state"] == "new"

    first = run(world, "start", "counts")
    assert first.code == Exit.OK, first
    assert re.search(r"query counts started; batch \d+ is committed", first.out), first
    running = only_stream(world)
    assert running["state"] == "running"
    assert "runs already" in ask(world, "start", "counts").out
    assert only_stream(world)["pid"] == running["pid"]

    until("three batches", lambda: world.store.batches.summary("counts").batches >= 3)
    assert int(str(only_stream(world)["batches"])) >= 3
    inspected = ask(world, "inspect", "counts", "--json").json
    assert inspected["committed"] >= 2
    assert inspected["findings"] == []
    checked = ask(world, "check", "counts", "--json")
    seen = {each["status"] for each in checked.json["streams"]["counts"]["verdicts"]}
    assert "CRITICAL" not in seen
    assert checked.code == Exit.OK, checked
    assert {each["status"] for each in checked.json["streams"]["counts"]["verdicts"]} >= {"OK"}

    saved = ask(world, "savepoint", "create", "counts", "--reason", "before a new version", "--json")
    assert saved.code == Exit.OK, saved
    assert saved.json["spark"] == version("pyspark")

    with ThreadPoolExecutor(1) as shell:
        restart = shell.submit(run, world, "restart", "counts", "--reason", "a new version")
        until("another driver", lambda: _newest(world) != running["driver_id"])
        world.publish(1)  # a start waits ten seconds for the first batch of a stream that has nothing to read
        again = restart.result()
    assert again.code == Exit.OK, again
    assert "a new version" in again.out
    restarted = only_stream(world)
    assert restarted["driver_id"] != running["driver_id"]
    until("one more batch", lambda: world.store.batches.summary("counts").batches >= 4)
    assert int(str(only_stream(world)["batch_id"])) >= 3

    upgraded = switched(world)
    assert upgraded.step is Step.DONE, upgraded
    assert "jobs/other.py" in (world.root / "config/streams/counts.yaml").read_text()
    assert only_stream(world)["driver_id"] != restarted["driver_id"]

    drained = run(world, "drain", "--reason", "an update")
    assert drained.code == Exit.OK, drained
    assert "an update" in drained.out
    assert only_stream(world)["state"] == "down", "it should run, and its supervisor starts it again"
    assert "no driver runs on this host" in ask(world, "drain").out
    stop = ["stop requested", "stopped"]
    upgrade = ["launched", "deployed"]
    assert events(world) == ["launched", *stop, "restarted", *stop, *upgrade, *stop]

    assert ask(world, "savepoint", "verify", "counts").code == Exit.OK
    named = ("counts", saved.json["id"])
    forked = ask(world, "savepoint", "fork", *named, "--into", str(world.root / "tried"))
    assert forked.code == Exit.OK, forked
    assert f"after batch {saved.json['batch']}" in forked.out
    assert (world.root / f"tried/fork/checkpoint/commits/{saved.json['batch'] + 1}").exists(), "it read the fourth file"
    world.job("other", COUNTS.replace('"key")', '"key", "note")'))
    refused = ask(world, "savepoint", "restore", *named)
    assert refused.code == Exit.BAD, refused
    assert "does not go on from it" in refused.err, "its state has another key"
    world.job("other", COUNTS)
    restored = ask(world, "savepoint", "restore", *named, "--reason", "a wrong version")
    assert restored.code == Exit.OK, restored
    assert "proof: the driver of a fork started from it and committed batch" in restored.out
    assert only_stream(world)["batch_id"] == saved.json["batch"]
    again = run(world, "start", "counts")
    assert again.code == Exit.OK, "the store knows later batches, and that a person put the stream back"
    until("the batch after it", (world.data / f"checkpoints/counts/commits/{saved.json['batch'] + 1}").exists)
    checked = ask(world, "check", "counts", "--json").json["streams"]["counts"]["verdicts"]
    assert [each for each in checked if each["status"] == "CRITICAL"] == []
    stopped = run(world, "stop", "counts", "--reason", "enough")
    assert stopped.code == Exit.OK, stopped
    assert "stopped" in stopped.out
    assert only_stream(world)["state"] == "stopped"
    assert "enough" in ask(world, "status").out
    assert "no driver runs on this host" in ask(world, "drain").out
    assert only_stream(world)["state"] == "stopped", "a drain starts nothing that a person stopped"
    told = events(world)
    assert "restored" in told
    assert told[-3:] == ["restarted", *stop]

    shutil.rmtree(world.data / "checkpoints/counts")
    refused = ask(world, "start", "counts")
    assert refused.code == Exit.BAD, refused
    assert "gone or empty" in refused.err
    assert only_stream(world)["state"] == "down"
    anew = ask(world, "start", "counts", "--begin-anew", "the disk was replaced")
    assert anew.code == Exit.OK, anew
    until("a new first batch", lambda: (world.data / "output/counts/_spark_metadata/0").exists())
    checked = ask(world, "check", "counts", "--json").json["streams"]["counts"]["verdicts"]
    assert {each["status"] for each in checked if each["check"] == "batches_skipped"} == {"OK"}
    assert "began anew" in events(world)


def _newest(world: Project) -> str:
    record = world.store.drivers.latest("counts")
    assert record is not None
    return record.driver_id


def switched(world: Project) -> Upgrade:
    """An upgrade to another file with the same job, after its preflight."""
    world.job("other", COUNTS)
    with Workspace.open(world.root) as space:
        spec = space.stream("counts")
        folder = Upgrades.of(spec).root / "20261126T000000Z"
        folder.mkdir(parents=True)
        (folder / OLD).write_text(STREAM)
        (folder / NEW).write_text(STREAM.replace("jobs/counts.py", "jobs/other.py"))
        begun = Upgrade(
            id=folder.name, stream="counts", step=Step.PREPARED, by="ann", reason="", before="a", after="b", watch=1.0
        )
        live = LiveStream(
            store=space.store,
            fleet=space.fleet,
            monitor=space.health_monitor(),
            declared=partial(space.stream, "counts"),
            by="ann",
            say=lambda text: None,
        )
        return Switch(
            store=space.store, live=live, spec=spec, folder=folder, upgrade=write_journal(folder, begun)
        ).carry_out()


def events(world: Project) -> list[str]:
    return [each["kind"] for each in ask(world, "history", "counts", "--json").json["events"]]


def test_a_supervised_stream_comes_back_and_outlives_ctrl_c(world: Project) -> None:
    world.publish(2)
    supervisor = subprocess.Popen(
        command(world, "start", "counts", "--supervise"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:

        def driver() -> tuple[str, int] | None:
            record = world.store.drivers.latest("counts")
            started = record is not None and record.started_at is not None and record.process is not None
            return (record.driver_id, record.process.pid) if started and record and record.process else None

        first = until("the first driver", driver)
        until("its first commit", (world.data / "checkpoints/counts/commits/0").exists)
        os.killpg(first[1], signal.SIGKILL)
        second = until("another driver", lambda: found if (found := driver()) and found != first else None)
        supervisor.send_signal(signal.SIGINT)
        shown, _ = supervisor.communicate(timeout=30)
    finally:
        supervisor.kill()
        supervisor.wait()
    assert supervisor.returncode == Exit.INTERRUPTED
    assert "launching: killed by signal 9" in shown
    assert "restart 1 in" not in shown
    assert "the driver continues" in shown
    assert world.fleet.observe(second[0]).alive
    assert only_stream(world)["restarts"] == 1
    assert "last exit: killed" in ask(world, "status").out
    assert events(world) == ["launched", "crashed", "restarted"]
    assert ask(world, "stop", "counts").code == Exit.OK


@pytest.mark.full  # in the first tier integration/deploy/test_guides has each command, and the tests above type most
def test_the_tutorial_does_what_it_says(tutorial: Future[dict[str, Answer]]) -> None:
    answers = tutorial.result()
    started = answers["streamwarden start orders"]
    assert re.search(r"query orders started; batch \d+ is committed", started.out), started
    assert "stopped" in answers["streamwarden stop orders"].out
    shown = answers["streamwarden drill show kill_orders"].out
    assert "0 lost" in shown or "loses nothing" in shown
