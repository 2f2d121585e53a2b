"""The command `repartition`: what it would do, what it refuses, and what it says when Spark does not rewrite.

That Spark rewrites rightly is shown by tests/spark/proofs/test_repartition.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamwarden.cli.exit_codes import Exit
from streamwarden.services.state import repartitioning
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


def project(cli: CommandLine, unpack: Unpack, kind: str) -> CommandLine:
    unpack(f"spark-4.3.0-{kind}", cli.project.data / "m")
    cli.project.write("config/streams/minutes.yaml", STREAM)
    return cli


def content(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_dry_run_writes_nothing(cli: CommandLine, unpack: Unpack) -> None:
    made = project(cli, unpack, "changelog")
    before = content(made.project.data / "m")
    said = made("repartition", "minutes", "--partitions", "8", "--dry-run")
    assert said.code == Exit.OK, said.err
    assert "the state of minutes goes from 2 to 8 partitions, as of batch 13" in said.out
    planned = made("repartition", "minutes", "--partitions", "8", "--dry-run", "--json").json
    assert (planned["batch"], planned["before"], planned["after"]) == (13, 2, 8)
    assert content(made.project.data / "m") == before


def test_state_on_the_heap_is_refused_before_anything_is_copied(cli: CommandLine, unpack: Unpack) -> None:
    made = project(cli, unpack, "hdfs")
    said = made("repartition", "minutes", "--partitions", "8")
    assert said.code == Exit.BAD
    assert "Spark rewrites the state of RocksDB alone" in said.err
    assert not (made.project.data / "savepoints").exists()


@pytest.mark.parametrize(
    ("file", "text", "code", "observed"),
    [
        ("refused.json", '"Unsupported operator"', Exit.BAD, "Spark refuses to repartition the state of minutes"),
        ("repartition.log", "OutOfMemoryError", Exit.UNAVAILABLE, "Spark ended with 1: OutOfMemoryError"),
    ],
)
def test_a_rewriting_that_ends_without_a_batch_changes_nothing(
    cli: CommandLine, unpack: Unpack, monkeypatch: pytest.MonkeyPatch, file: str, text: str, code: Exit, observed: str
) -> None:
    made = project(cli, unpack, "changelog")
    before = content(made.project.data / "m")

    def run(name: str, spec: StreamSpec, folder: Path, **options: Any) -> int:
        assert (name, spec.spark.master) == ("repartition", f"local[{repartitioning.CORES}]")
        (folder / file).write_text(text)
        return 1

    monkeypatch.setattr(repartitioning, "run_program", run)
    said = made("repartition", "minutes", "--partitions", "8", "--reason", "more cores")
    assert said.code == code
    assert "takes a savepoint of batch 13\nlets Spark rewrite the state of a copy in 8 partitions" in said.out
    assert observed in " ".join(said.err.split())
    assert content(made.project.data / "m") == before
    (saved,) = made("savepoint", "list", "minutes", "--json").json
    assert (saved["batch"], saved["reason"]) == (13, "more cores")
