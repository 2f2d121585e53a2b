"""The commands `savepoint …`, on a checkpoint that a real Spark wrote."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from streamwarden.cli.commands.state import savepoints
from streamwarden.cli.exit_codes import Exit
from support.checkpoints.recorded import Unpack, replace
from support.command_line import CommandLine


@pytest.fixture
def saved(cli: CommandLine, unpack: Unpack) -> CommandLine:
    """A project with the stream `minutes`, whose query has committed batches 0 to 13."""
    unpack("spark-4.3.0-changelog", cli.project.data / "m")
    cli.project.write(
        "config/streams/minutes.yaml",
        """
        name: minutes
        job: spark_jobs/job.py
        source: {path: m/input}
        sink: {path: m/output}
        checkpoint: m/checkpoint
        """,
    )
    return cli


def test_a_savepoint_from_its_creation_to_its_end(saved: CommandLine) -> None:
    assert "has no savepoint" in saved("savepoint", "list", "minutes").out
    made = saved("savepoint", "create", "minutes", "--reason", "before the upgrade")
    assert made.code == Exit.OK, made.err
    assert "minutes as of batch 13, 24 files" in made.out
    (entry,) = saved("savepoint", "list", "minutes", "--json").json
    assert (entry["condition"], entry["batch"], entry["reason"]) == ("complete", 13, "before the upgrade")
    assert entry["by"].endswith("(command line)")
    assert "before the upgrade" in saved("savepoint", "list", "minutes").out
    shown = saved("savepoint", "show", "minutes")
    assert "stateStoreSave" in shown.out
    assert "newest batch 13" in shown.out
    verified = saved("savepoint", "verify", "minutes", entry["id"])
    assert (verified.code, "all is as it was saved (24 files" in verified.out) == (Exit.OK, True)
    assert saved("savepoint", "delete", "minutes", entry["id"]).code == Exit.OK
    assert saved("savepoint", "list", "minutes", "--json").json == []
    gone = saved("savepoint", "show", "minutes", entry["id"])
    assert gone.code == Exit.BAD
    assert f"minutes has no savepoint '{entry['id']}'" in gone.err


def test_verify_names_the_file_with_another_byte(saved: CommandLine) -> None:
    saved("savepoint", "create", "minutes")
    (entry,) = saved("savepoint", "list", "minutes", "--json").json
    folder = saved.project.data / "savepoints/minutes" / entry["id"]
    table = next(folder.rglob("*.sst"))
    replace(table, table.read_bytes()[::-1])
    verified = saved("savepoint", "verify", "minutes")
    assert verified.code == Exit.BAD
    assert f"digest: {table.relative_to(folder)}: SHA-256 " in verified.out
    as_data = saved("savepoint", "verify", "minutes", "--json")
    assert [fault["fault"] for fault in as_data.json["faults"]] == ["digest"]


def test_a_dry_run_lists_the_files_and_writes_none(saved: CommandLine) -> None:
    planned = saved("savepoint", "create", "minutes", "--batch", "7", "--dry-run")
    assert planned.code == Exit.OK
    assert "batch 7: " in planned.out
    assert f"{saved.project.data}/m/checkpoint/commits/7" in planned.out
    assert not (saved.project.data / "savepoints").exists()
    assert saved("savepoint", "create", "minutes", "--batch", "7", "--dry-run", "--json").json["batch"] == 7


def test_a_dry_run_deletes_and_forks_nothing(saved: CommandLine) -> None:
    saved("savepoint", "create", "minutes")
    (entry,) = saved("savepoint", "list", "minutes", "--json").json
    before = set(saved.project.data.rglob("*"))
    gone = saved("savepoint", "delete", "minutes", entry["id"], "--dry-run")
    assert (gone.code, f"{entry['id']} would be deleted: 24 files" in gone.out) == (Exit.OK, True), gone.out
    forked = saved("savepoint", "fork", "minutes", "--into", str(saved.project.data / "tried"), "--dry-run")
    assert (forked.code, "after batch 13 (24 files" in forked.out) == (Exit.OK, True), forked.out + forked.err
    assert set(saved.project.data.rglob("*")) == before
    assert saved("savepoint", "delete", "minutes", "20200101T000000Z", "--dry-run").code == Exit.BAD
    full = saved.project.data / "full"
    (full / "fork/x").mkdir(parents=True)
    assert saved("savepoint", "fork", "minutes", "--into", str(full), "--dry-run").code == Exit.BAD


def test_a_terminal_shows_how_far_it_is_and_a_pipe_does_not(
    saved: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bar is on stderr: what a program reads stays JSON."""
    told: list[tuple[str, int, int]] = []

    @contextmanager
    def bar() -> Iterator[Callable[[str, int, int], None]]:
        yield lambda *step: told.append(step)

    assert saved("savepoint", "create", "minutes").err == ""
    monkeypatch.setattr(savepoints, "progress_bar", bar)
    saved("savepoint", "create", "minutes")
    saved("savepoint", "verify", "minutes")
    copied, read = ([step for step in told if step[0] == what] for what in ("files copied", "bytes read"))
    assert [done for _, done, _ in copied] == list(range(1, 25))
    assert {of for _, _, of in copied} == {24}
    totals = [done for _, done, of in read if done == of]
    assert len(totals) == 2, "the digests of the new savepoint, and those of its verification"


def test_the_manifest_of_a_declared_stream_has_its_file(saved: CommandLine) -> None:
    saved("savepoint", "create", "minutes")
    document = saved("savepoint", "show", "minutes", "--json").json
    assert document["declaration"]["text"].startswith("\nname: minutes\n")
    assert document["declaration"]["path"].endswith("config/streams/minutes.yaml")
    assert document["job"]["text"] == "def build(spark, spec): ...\n"
    assert document["spark"] is None, "no driver of this store has run"


def test_a_stream_that_does_not_exist_has_no_savepoints(saved: CommandLine) -> None:
    assert saved("savepoint", "create", "seconds").code == Exit.USAGE


def test_a_stream_that_never_ran_cannot_be_saved(saved: CommandLine) -> None:
    saved.project.stream("fresh")
    refused = saved("savepoint", "create", "fresh")
    assert refused.code == Exit.BAD
    assert "no batch is committed yet" in refused.err


def test_an_interrupted_savepoint_is_shown_and_can_be_deleted(saved: CommandLine) -> None:
    folder = saved.project.data / "savepoints/minutes/20251125T204502Z"
    (folder / "checkpoint").mkdir(parents=True)
    assert [entry["condition"] for entry in saved("savepoint", "list", "minutes", "--json").json] == ["incomplete"]
    refused = saved("savepoint", "show", "minutes", folder.name)
    assert f"streamwarden savepoint delete minutes {folder.name}" in refused.err.replace("\n", "")
    assert saved("savepoint", "delete", "minutes", folder.name).code == Exit.OK
    assert not folder.exists()


def test_a_manifest_is_a_document_for_other_programs(saved: CommandLine) -> None:
    made = saved("savepoint", "create", "minutes", "--json").json
    manifest = saved.project.data / "savepoints/minutes" / made["id"] / "savepoint.json"
    assert json.loads(Path(manifest).read_text())["files"] == made["files"]


def test_a_stream_is_put_back_to_a_savepoint(saved: CommandLine) -> None:
    saved("savepoint", "create", "minutes", "--batch", "7")
    restored = saved("savepoint", "restore", "minutes", "--no-proof", "--reason", "a wrong job")
    assert restored.code == Exit.OK, restored.err
    assert "goes on after batch 7" in restored.out
    assert "proof: not tried on a fork" in restored.out
    assert "next: streamwarden start minutes" in restored.out
    assert saved("inspect", "minutes", "--json").json["committed"] == 7
    again = saved("savepoint", "restore", "minutes", "--no-proof", "--json").json
    assert (again["exchange"]["batch"], again["resumed"]) == (7, False)


def test_a_stream_is_rewound_after_its_plan_was_shown(saved: CommandLine) -> None:
    planned = saved("rewind", "minutes", "--to", "11", "--dry-run")
    assert planned.code == Exit.OK, planned.err
    assert "minutes would be put back to batch 11; nothing was changed" in planned.out
    assert "data files of later batches and the previous manifest are moved to" in planned.out
    assert saved("savepoint", "list", "minutes", "--json").json == []
    assert saved("inspect", "minutes", "--json").json["committed"] == 13
    rewound = saved("rewind", "minutes", "--to", "11", "--no-proof")
    assert rewound.code == Exit.OK, rewound.err
    assert "goes on after batch 11" in rewound.out
    (entry,) = saved("savepoint", "list", "minutes", "--json").json
    restored = saved("savepoint", "restore", "minutes", "--dry-run", "--json").json
    assert (entry["batch"], restored["batch"], restored["remains"]) == (11, 11, "")


@pytest.mark.parametrize("given", [(), ("--to", "3", "--to-time", "2026-11-25T10:00:00")])
def test_a_rewind_is_to_a_batch_or_to_a_time(saved: CommandLine, given: tuple[str, ...]) -> None:
    refused = saved("rewind", "minutes", *given)
    assert (refused.code, "name either a batch (--to) or a time (--to-time)" in refused.err) == (Exit.USAGE, True)


def test_a_fork_of_a_savepoint_can_be_made_without_running_it(saved: CommandLine) -> None:
    (saved.project.data / "m/input").mkdir()
    saved("savepoint", "create", "minutes")
    into = saved.project.root / "tried"
    made = saved("savepoint", "fork", "minutes", "--into", str(into), "--no-run")
    assert made.code == Exit.OK, made.err
    assert "after batch 13" in made.out
    assert (into / "fork/checkpoint/commits/13").is_file()
    refused = saved("savepoint", "fork", "minutes", "--into", str(into), "--no-run")
    assert refused.code == Exit.BAD
    assert "the fork's folder is not empty" in refused.err
