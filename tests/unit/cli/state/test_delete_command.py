"""The command `state delete`: what it refuses before Spark starts, and what it says.

That Spark rewrites rightly is shown by tests/spark/proofs/test_state_surgery.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from streamwarden.cli.exit_codes import Exit
from streamwarden.lifecycle.surgery.rewriting import Found, Part, Rewritten
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
    refused = made("hdfs")("state", "delete", "minutes", "--key", "key=k1", "--reason", "r")
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
