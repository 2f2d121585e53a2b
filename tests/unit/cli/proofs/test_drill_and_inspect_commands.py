"""`drill list`, `drill show`, `inspect`, `replay`."""

import json
from pathlib import Path

import pytest

from streamwarden.cli.commands.proofs.drilling import on_python
from streamwarden.cli.exit_codes import Exit
from streamwarden.config.loading import load_drill
from streamwarden.drills.records.codec import encode
from streamwarden.drills.records.journal import DrillRun, DrillStatus, DrillStep, JournalEntry
from streamwarden.drills.spec import DrillSpec
from streamwarden.services.replay.replay import ROWS_PER_FILE, ReplayStats
from support.command_line import CommandLine
from support.simulated.drill_specs import fault_of
from support.streams.stored_journals import facts_with


def finished(cli: CommandLine, status: DrillStatus, deviated: bool | None) -> str:
    run = DrillRun(
        run_id="kill-1",
        drill="kill",
        stream="a",
        started_at=1.0,
        ended_at=2.0,
        status=status,
        deviated=deviated,
        reason="this is why",
        facts=facts_with("kill_driver", lost=1),
    )
    with cli.store() as store:
        store.journals.save(run)
        store.journals.append(
            "kill-1", JournalEntry(step=DrillStep.FAULT, at=1.5, kind="landed", message="it [landed]")
        )
    return run.run_id


@pytest.mark.parametrize(
    ("status", "deviated", "code", "word"),
    [
        (DrillStatus.COMPLETED, False, Exit.OK, "PASSED"),
        (DrillStatus.COMPLETED, True, Exit.BAD, "DEVIATED"),
        (DrillStatus.COMPLETED, None, Exit.BAD, "DEVIATED"),
        (DrillStatus.ABORTED, None, Exit.UNDECIDED, "ABORTED"),
        (DrillStatus.FAILED, None, Exit.UNDECIDED, "FAILED"),
        (DrillStatus.RUNNING, None, Exit.UNDECIDED, "RUNNING"),
    ],
)
def test_only_a_drill_that_completed_and_did_not_deviate_is_0(
    cli: CommandLine, status: DrillStatus, deviated: bool | None, code: Exit, word: str
) -> None:
    finished(cli, status, deviated)
    answer = cli("drill", "show")
    assert answer.code == code
    assert word in answer.out
    as_data = cli("drill", "show", "kill", "--json")
    assert as_data.code == code
    assert as_data.json["passed"] is (code is Exit.OK)
    assert as_data.json["verdict"] == word


def test_the_report_shows_the_counts_and_on_demand_the_journal(cli: CommandLine) -> None:
    finished(cli, DrillStatus.COMPLETED, True)
    answer = cli("drill", "show", "kill-1", "--journal")
    assert "1 lost, 0 duplicated" in answer.out
    assert "fault: it [landed]" in answer.out


def test_a_run_that_is_not_there_is_reported(cli: CommandLine) -> None:
    assert cli("drill", "show").code == Exit.USAGE
    answer = cli("drill", "show", "nope")
    assert answer.code == Exit.USAGE
    assert "streamwarden drill list" in answer.err


def test_a_replay_of_a_run_that_is_not_there_breaks_nothing(cli: CommandLine) -> None:
    answer = cli("drill", "replay", "nope")
    assert answer.code == Exit.USAGE
    assert "streamwarden drill list" in answer.err


def test_a_drill_that_has_not_run_yet_is_answered_with_how_to_run_it(cli: CommandLine) -> None:
    cli.project.stream("a")
    cli.project.write("config/drills/kill.yaml", "name: kill\nstream: a\nfault: {kind: kill_driver}\n")
    answer = cli("drill", "show", "kill")
    assert answer.code == Exit.USAGE
    assert "the drill kill has not run yet" in answer.err
    assert "streamwarden drill run kill" in answer.err


def test_a_stream_that_never_started_has_no_checkpoint_yet(cli: CommandLine) -> None:
    cli.project.stream("a")
    answer = cli("inspect", "a")
    assert answer.code == Exit.BAD
    assert "a has no checkpoint yet: none of its queries has started" in answer.err
    assert "run `streamwarden start a`" in answer.err


def test_a_folder_that_is_not_there_may_be_a_wrong_path(cli: CommandLine) -> None:
    assert "there is no such folder" in cli("inspect", str(cli.project.root / "nothing")).err


def test_drills_are_listed_with_their_newest_runs(cli: CommandLine) -> None:
    cli.project.stream("a")
    cli.project.write("config/drills/kill.yaml", "name: kill\nstream: a\nfault: {kind: kill_driver}\n")
    cli.project.write("config/drills/bad.yaml", "name: bad\n")
    finished(cli, DrillStatus.COMPLETED, False)
    answer = cli("drill", "list")
    assert answer.code == Exit.OK
    assert "kill_driver" in answer.out
    assert "kill-1" in answer.out
    assert "bad" in answer.out
    as_data = cli("drill", "list", "--json").json
    assert list(as_data["drills"]) == ["kill"]
    assert list(as_data["broken"]) == ["bad"]
    assert as_data["runs"][0]["verdict"] == "PASSED"


def test_running_a_drill_that_is_not_there_breaks_nothing(cli: CommandLine) -> None:
    cli.project.stream("a")
    answer = cli("drill", "run", "nope")
    assert answer.code == Exit.USAGE
    assert not (cli.project.data / "drills").exists()


def checkpoint(folder: Path, committed: int) -> Path:
    """The logs of a query that has planned batches 0 and 1."""
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True)
    (folder / "metadata").write_text('{"id":"7c1b6bd0-0000-4000-8000-000000000000"}')
    for batch in (0, 1):
        header = {"batchWatermarkMs": 0, "batchTimestampMs": 1700000000000 + batch, "conf": {}}
        (folder / "offsets" / str(batch)).write_text(f"v1\n{json.dumps(header)}\n-\n")
    for batch in range(committed + 1):
        (folder / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    return folder


def test_a_checkpoint_is_read_without_spark(cli: CommandLine) -> None:
    folder = checkpoint(cli.project.root / "ckpt", committed=0)
    answer = cli("inspect", str(folder))
    assert answer.code == Exit.OK
    assert "7c1b6bd0" in answer.out
    assert "1 planned and not committed" in answer.out
    assert cli("inspect", str(folder), "--json").json["gap"] == 1


def test_only_the_newest_batch_runs_again(cli: CommandLine) -> None:
    folder = checkpoint(cli.project.root / "ckpt", committed=-1)
    answer = cli("inspect", str(folder))
    assert "2 planned and not committed: only batch 1, the newest, will run again" in answer.out


def test_a_commit_that_was_not_planned_is_no_gap(cli: CommandLine) -> None:
    folder = checkpoint(cli.project.root / "ckpt", committed=3)
    assert "batch 3 is committed and was not planned" in cli("inspect", str(folder)).out


def test_a_copied_checkpoint_keeps_the_time_of_its_plans(cli: CommandLine) -> None:
    """The offset log says when a batch was planned; nothing but its file says when it was committed."""
    folder = checkpoint(cli.project.root / "ckpt", committed=1)
    answer = cli("inspect", str(folder), "--json").json
    assert (answer["planned_at"], answer["committed_at"]) == (1700000000.001, None)
    assert [each["planned_at"] for each in answer["batches"]] == [1700000000.0, 1700000000.001]
    assert "the files were copied" in cli("inspect", str(folder)).out


def test_a_folder_of_several_checkpoints_lists_them(cli: CommandLine) -> None:
    parent = cli.project.root / "several"
    checkpoint(parent / "flights", committed=1)
    checkpoint(parent / "bags" / "checkpoint", committed=1)
    (parent / "notes").mkdir()
    answer = cli("inspect", str(parent))
    assert answer.code == Exit.BAD
    assert "2 checkpoints are below it: bags/checkpoint, flights" in answer.err
    assert f"{parent}/bags/checkpoint" in answer.err


def test_a_checkpoint_is_named_by_its_stream_too(cli: CommandLine) -> None:
    cli.project.stream("a")
    checkpoint(cli.project.data / "checkpoints/a", committed=1)
    assert "every planned batch is committed" in cli("inspect", "a").out


def test_damage_that_spark_refuses_is_1(cli: CommandLine) -> None:
    folder = checkpoint(cli.project.root / "ckpt", committed=0)
    (folder / "metadata").write_text("")
    answer = cli("inspect", str(folder))
    assert answer.code == Exit.BAD
    assert "refuses" in answer.out
    assert "metadata" in answer.out


def test_a_folder_that_is_not_a_checkpoint_is_refused(cli: CommandLine) -> None:
    answer = cli("inspect", str(cli.project.root))
    assert answer.code == Exit.BAD
    assert "contains no part of a checkpoint" in answer.err


def test_flights_are_replayed_into_the_folder_of_a_stream(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wiring alone: reading the data set takes seconds, and the replay's own tests do it."""
    asked: list[tuple[Path, dict[str, object]]] = []

    def publish(into: Path, **options: object) -> ReplayStats:
        asked.append((into, options))
        return ReplayStats(
            files_written=2, files_skipped=1, flights=600, cancelled=3, observations=0, first=0.0, last=1.0, seconds=0.1
        )

    monkeypatch.setattr("streamwarden.services.replay.replay.replay", publish)
    cli.project.stream("a")
    answer = cli("replay", "--stream", "a", "--limit", "400", "--speedup", "60")
    assert answer.code == Exit.OK
    assert "2 files written, 1 existed; 600 flights" in answer.out
    options = {"parts": (), "speedup": 60.0, "rows_per_file": ROWS_PER_FILE, "limit": 400}
    assert asked == [(cli.project.data / "input/a", options)]


@pytest.mark.parametrize("into", [["input/a"], ["--stream", "a"]])
def test_flights_are_not_replayed_into_a_storage(cli: CommandLine, into: list[str]) -> None:
    cli.project.stream("a")
    answer = cli("--data", "hdfs://lake/streams", "replay", *into)
    assert answer.code == Exit.USAGE
    assert "means hdfs://lake/streams/input/a" in " ".join(answer.err.split())
    assert not (cli.project.data / "input").exists()


def test_a_replay_with_values_out_of_range_is_reported(cli: CommandLine) -> None:
    cli.project.stream("a")
    answer = cli("replay", "--stream", "a", "--speedup", "0")
    assert answer.code == Exit.USAGE
    assert "speedup" in answer.err


LIVE = """\
name: kill
stream: a
fault: {kind: kill_driver}
target: production
production: {allowed_hours: {start: "09:00", end: "16:00"}}
"""


def test_a_drill_on_a_live_stream_is_not_run_in_a_shell(cli: CommandLine) -> None:
    """Nobody there would have approved it."""
    cli.project.stream("a")
    cli.project.write("config/drills/kill.yaml", LIVE)
    answer = cli("drill", "run", "kill")
    assert answer.code == Exit.USAGE
    assert "the drill kill hits the live stream a" in answer.err
    assert "next: trigger the DAG drill_kill in Airflow and approve it there" in answer.err
    with cli.store() as store:
        assert store.journals.recent() == ()


def test_an_interpreter_is_only_for_a_drill_that_changes_the_spark(cli: CommandLine) -> None:
    cli.project.stream("a")
    cli.project.write("config/drills/kill.yaml", "name: kill\nstream: a\nfault: {kind: kill_driver}\n")
    answer = cli("drill", "run", "kill", "--python", "/opt/envs/spark43/bin/python")
    assert answer.code == Exit.USAGE
    assert "the drill kill has no fault with an interpreter" in answer.err
    with cli.store() as store:
        assert store.journals.recent() == ()


def test_the_interpreter_of_the_command_line_is_that_of_each_upgrade() -> None:
    upgrade, kill = fault_of("upgrade_spark"), fault_of("kill_driver")
    alone = on_python(DrillSpec(name="one", stream="a", fault=upgrade), "/new/bin/python")
    assert alone.fault == fault_of("upgrade_spark", python="/new/bin/python")
    several = on_python(DrillSpec(name="two", stream="a", faults=(kill, upgrade)), "/new/bin/python")
    assert several.faults == (kill, alone.fault)


def test_neither_is_a_run_of_it_repeated(cli: CommandLine) -> None:
    cli.project.stream("a")
    path = cli.project.write("config/drills/kill.yaml", LIVE)
    drill = encode(load_drill(path, project=cli.project.root))
    run = DrillRun(run_id="kill-1", drill="kill", stream="a", started_at=1.0, ended_at=2.0, facts={"drill": drill})
    with cli.store() as store:
        store.journals.save(run)
    answer = cli("drill", "replay", "kill-1")
    assert answer.code == Exit.USAGE
    assert "in Airflow" in answer.err
    with cli.store() as store:
        assert len(store.journals.recent()) == 1
