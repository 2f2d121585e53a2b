"""The commands `state delete` and `state set`: what they refuse before Spark starts, and what they say.

That Spark rewrites rightly is shown by tests/spark/proofs/test_state_{compaction,deletion,setting}.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from streamwarden.cli.exit_codes import Exit
from streamwarden.lifecycle.surgery.assignment import Assigned, Written
from streamwarden.lifecycle.surgery.rewriting import Found, Part, Rewritten
from streamwarden.lifecycle.time_travel.answers import Entry
from streamwarden.services.state import looking
from streamwarden.stream.spec import StreamSpec
from support.checkpoints.recorded import Unpack
from support.command_line import CommandLine

STREAM = """
name: minutes
job: spark_jobs/job.py
source: {path: m/input}
sink: {path: m/output}
checkpoint: m/checkpoint
"""
PARTS = (
    Part(store="default", family="count", keys=1, rows=1),
    Part(store="default", family="$procTimers_keyToTimestamp", keys=1, rows=5),
)
FOUND = Found(fields=("key",), keys=1, parts=PARTS, by_store={"default": 1}, sample=(("k1",),))


@pytest.fixture
def made(cli: CommandLine, unpack: Unpack) -> Callable[[str], CommandLine]:
    def make(kind: str) -> CommandLine:
        unpack(f"spark-4.3.0-{kind}", cli.project.data / "m")
        cli.project.write("config/streams/minutes.yaml", STREAM)
        return cli

    return make


def answering(monkeypatch: pytest.MonkeyPatch, *answers: tuple[str, Any]) -> list[dict[str, Any]]:
    """Let the processes give these answers, in this order; returns their requests."""
    left, requests = list(answers), []

    def run(name: str, spec: StreamSpec, folder: Path, **_: Any) -> int:
        requests.append({"program": name, **json.loads((folder / "request.json").read_text())[0]})
        file, answer = left.pop(0)
        (folder / f"{name}.log").write_text("the JVM died")
        if file:
            (folder / file).write_text(json.dumps(answer))
        return 1

    monkeypatch.setattr(looking, "run_program", run)
    return requests


def test_a_dry_run_counts(made: Callable[[str], CommandLine], monkeypatch: pytest.MonkeyPatch) -> None:
    answer = ("result.json", [asdict(Rewritten(found=FOUND))])
    requests = answering(monkeypatch, answer, answer)
    cli = made("processor")
    said = cli("state", "delete", "minutes", "--key", "k1", "--dry-run")
    assert said.code == Exit.OK, said.err
    assert "after batch 4: 1 key with 6 rows would be deleted" in said.out
    assert "$procTimers_keyToTimestamp" in said.out
    assert "key=k1" in said.out
    assert "Nothing was changed." in said.out
    assert (
        cli("state", "delete", "minutes", "--where", "key.key = 'k1'", "--dry-run", "--json").json["found"]["keys"] == 1
    )
    assert [request["keys"] for request in requests] == [
        {"fields": ["k1"], "where": None},
        {"fields": [], "where": "key.key = 'k1'"},
    ]
    assert all((request["program"], request["into"]) == ("rewriting", None) for request in requests)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--reason", "r"], "no key is named"),
        (["--key", "a", "--where", "true", "--reason", "r"], "both --key and --where"),
        (["--key", "a"], "no reason is given"),
        (["--key", "a", "--reason", "  "], "no reason is given"),
    ],
)
def test_a_wrong_command_line(made: Callable[[str], CommandLine], options: list[str], said: str) -> None:
    refused = made("processor")("state", "delete", "minutes", *options)
    assert refused.code == Exit.USAGE
    assert said in refused.err


def test_state_on_the_heap_is_refused_before_spark_starts(made: Callable[[str], CommandLine]) -> None:
    cli = made("hdfs")
    for command in (("delete",), ("set", "--value", "9")):
        refused = cli("state", *command, "minutes", "--key", "key=k1", "--reason", "r")
        assert refused.code == Exit.BAD
        assert "Spark rewrites states of RocksDB alone" in refused.err


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        (("result.json", [asdict(Rewritten(found=FOUND))]), Exit.BAD, "the query keeps no state"),
        (("", None), Exit.UNAVAILABLE, "Spark ended with 1: the JVM died"),
    ],
    ids=["nothing was written", "the process died"],
)
def test_whatever_goes_wrong_leaves_nothing(
    made: Callable[[str], CommandLine], monkeypatch: pytest.MonkeyPatch, answer: Any, code: Exit, said: str
) -> None:
    cli = made("processor")
    before = {path: path.read_bytes() for path in (cli.project.data / "m").rglob("*") if path.is_file()}
    answering(monkeypatch, answer)
    refused = cli("state", "delete", "minutes", "--key", "k1", "--reason", "r")
    assert refused.code == code
    assert said in refused.err
    assert {path: path.read_bytes() for path in (cli.project.data / "m").rglob("*") if path.is_file()} == before
    assert not (cli.project.data / "savepoints").exists()


OLD = Entry(partition=0, key=("k1",), value='{"n":6}')
SET = Assigned(fields=("key",), before=OLD, after=replace(OLD, value='{"n":9}'), proven=5)
NAMED = ("--key", "k1", "--value", "9", "--variable", "count")


def test_a_dry_run_shows_both_values(made: Callable[[str], CommandLine], monkeypatch: pytest.MonkeyPatch) -> None:
    answers = (SET, SET, replace(SET, before=None), replace(SET, before=SET.after))
    requests = answering(monkeypatch, *(("result.json", [asdict(answer)]) for answer in answers))
    cli = made("processor")
    said = cli("state", "set", "minutes", *NAMED, "--dry-run")
    assert said.code == Exit.OK, said.err
    assert "count, after batch 4" in said.out
    assert "old value: n=6" in said.out
    assert "new value: n=9" in said.out
    assert "5 stored values encoded again to the same bytes" in said.out
    assert "Nothing was changed." in said.out
    assert cli("state", "set", "minutes", *NAMED, "--dry-run", "--json").json["assigned"]["after"]["value"] == '{"n":9}'
    assert "old value: none" in cli("state", "set", "minutes", *NAMED, "--dry-run").out
    assert "the key has this value already" in cli("state", "set", "minutes", *NAMED, "--dry-run").err
    (request, *_) = requests
    assert (request["program"], request["store"], request["into"]) == ("assigning", "default", None)
    assert request["wanted"] == {"keys": ["k1"], "value": ["9"]}


def test_what_is_refused_before_a_value_is_read(made: Callable[[str], CommandLine]) -> None:
    cli = made("processor")
    for options, said in [
        (("--key", "k1", "--reason", "r"), "Missing option '--value'"),
        (("--value", "9", "--reason", "r"), "Missing option '--key'"),
        (NAMED, "no reason is given"),
        ((*NAMED[:-1], "nothing", "--reason", "r"), "the state has no table of the variable 'nothing'"),
    ]:
        refused = cli("state", "set", "minutes", *options)
        assert refused.code == Exit.USAGE
        assert said in refused.err


def test_a_value_that_was_not_written_leaves_nothing(
    made: Callable[[str], CommandLine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process says that it wrote, and the copy has no state."""
    cli = made("processor")
    before = {path: path.read_bytes() for path in (cli.project.data / "m").rglob("*") if path.is_file()}
    written = replace(SET, written=Written(gone=1, came=1, right=1))
    answering(monkeypatch, ("result.json", [asdict(written)]))
    refused = cli("state", "set", "minutes", *NAMED, "--reason", "r")
    assert refused.code == Exit.BAD
    assert "the query keeps no state" in refused.err
    assert {path: path.read_bytes() for path in (cli.project.data / "m").rglob("*") if path.is_file()} == before
    assert not (cli.project.data / "savepoints").exists()
