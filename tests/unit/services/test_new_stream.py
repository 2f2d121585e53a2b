"""`new` writes a stream that validates as it is, and never touches what exists. Run with Spark:
tests/engines/test_lake_templates.py and tests/integration/test_wheel.py."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.adapters.jvm.connectors import connectors
from streamwarden.adapters.jvm.environments import SparkEnvironment, making, own
from streamwarden.cli.app import run
from streamwarden.cli.exit_codes import Exit
from streamwarden.config import spark_environment
from streamwarden.config.loading import load_catalog, load_drills
from streamwarden.drills.records.sections import OracleKind
from streamwarden.errors import ConfigError
from streamwarden.lifecycle.location import DataUrl
from streamwarden.lint.finding import Severity
from streamwarden.services.analysis.linting import lint_declared
from streamwarden.services.drilling.drillable import require_verdict
from streamwarden.services.scaffolding.new_stream import (
    FILES,
    JOB,
    ORDERS_PER_FILE,
    SCRIPT,
    NewStream,
    Template,
    new_stream,
    rendered,
)
from streamwarden.services.scaffolding.sinks import SINKS, USUAL
from streamwarden.sinks import KINDS
from support.servers.bucket import bucket

PYTHON = "/opt/envs/it's 4.x/bin/python"


def made(
    root: Path, name: str = "orders", template: Template = JOB, sink: str = USUAL, python: str | None = None
) -> NewStream:
    return new_stream(name, template, project=root, data=root / "var", sink=sink, python=python)


def on_spark(patch: pytest.MonkeyPatch, version: str) -> None:
    """Every interpreter is of an environment with this Spark."""

    def asked(python: str) -> SparkEnvironment:
        return replace(own(), python=python, version=version)

    patch.setattr(spark_environment, "named", asked)


def spark_of(sink: str) -> str:
    """The version of Spark on which a new stream with this sink runs."""
    needed = KINDS[sink].CONNECTOR
    return own().version if needed is None else "{}.{}.9".format(*connectors()[needed].usual)


def files_in(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("template", [JOB, SCRIPT])
def test_the_files_of_a_new_stream_are_valid_and_have_no_error(tmp_path: Path, template: Template) -> None:
    made(tmp_path, template=template)
    catalog = load_catalog(tmp_path, tmp_path / "var")
    assert (list(catalog.streams), catalog.broken) == (["orders"], {})
    drills = tuple(load_drills(tmp_path)[0].values()) if template is JOB else ()
    found = {each.severity for each in lint_declared(catalog.streams["orders"], drills)}
    assert Severity.ERROR not in found
    assert (Severity.WARNING in found) is (template is SCRIPT), "it prints to the console, and has no drill"


def test_a_drill_can_judge_a_new_job(tmp_path: Path) -> None:
    made(tmp_path)
    (drill,) = load_drills(tmp_path)[0].values()
    assert (drill.name, drill.stream) == ("kill_orders", "orders")
    stream = load_catalog(tmp_path, tmp_path / "var").get("orders")
    assert require_verdict(stream, drill.feed, drill.verification.oracle) == (OracleKind.JOB, OracleKind.TWIN)
    assert drill.verification.min_records <= FILES * ORDERS_PER_FILE
    assert drill.fork.batches <= FILES


@pytest.mark.parametrize("sink", SINKS)
def test_each_kind_of_sink_is_valid_and_drilled_on_its_spark(
    sink: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_spark(monkeypatch, spark_of(sink))
    written = made(tmp_path, sink=sink, python=PYTHON)
    catalog, (drills, broken) = load_catalog(tmp_path, tmp_path / "var"), load_drills(tmp_path)
    assert (catalog.broken, broken) == ({}, {})
    stream, drill = catalog.get("orders"), drills["kill_orders"]
    assert (stream.sink.kind, stream.spark.python) == (sink, PYTHON)
    assert require_verdict(stream, drill.feed, drill.verification.oracle) == (OracleKind.JOB, OracleKind.TWIN)
    fetched = [command for command in written.commands if command.startswith("streamwarden prepare")]
    assert fetched == ([] if sink == "parquet" else [f"streamwarden prepare --{sink}"])


@pytest.mark.parametrize("sink", ["delta", "iceberg"])
@pytest.mark.parametrize("python", [None, PYTHON])
def test_a_table_on_a_spark_without_its_connector_is_refused_before_anything_is_written(
    sink: str, python: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_spark(monkeypatch, "4.0.9")
    fits = connectors()[sink].usual
    with pytest.raises(ConfigError, match="nothing was written") as raised:
        made(tmp_path, sink=sink, python=python)
    error = raised.value
    assert "Spark {}.{} runs the stream".format(*(own().minor if python is None else (4, 0))) in error.observed
    assert "an environment with Spark {}.{}".format(*fits) in error.expected
    assert error.where == "config/streams/orders.yaml: spark.python (--python)"
    assert making(fits) in error.next_step
    assert files_in(tmp_path) == set()


def test_an_iceberg_table_in_an_object_store_is_refused_and_a_delta_table_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket(monkeypatch)
    url = DataUrl("s3a://lake/streams")
    on_spark(monkeypatch, spark_of("iceberg"))
    with pytest.raises(ConfigError, match="nothing was written") as raised:
        new_stream("orders", JOB, project=tmp_path, data=url, sink="iceberg", python=PYTHON)
    assert raised.value.where == "config/streams/orders.yaml: sink.path"
    assert files_in(tmp_path) == set()
    on_spark(monkeypatch, spark_of("delta"))
    written = new_stream("orders", JOB, project=tmp_path, data=url, sink="delta", python=PYTHON)
    assert written.commands[:2] == (
        "streamwarden prepare --delta",
        f"streamwarden prepare --s3 --python {shlex.quote(PYTHON)}",
    )


@pytest.mark.parametrize("template", [JOB, SCRIPT])
def test_the_files_follow_the_rules_of_a_linter(tmp_path: Path, template: Template) -> None:
    made(tmp_path, template=template)
    ruff = [sys.executable, "-m", "ruff"]
    rules = ["--isolated", "--line-length", "120", "spark_jobs"]
    for arguments in (["check", "--select", "E,F,I,UP,B,SIM,RUF"], ["format", "--check"]):
        done = subprocess.run([*ruff, *arguments, *rules], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_input_is_read_in_the_order_of_its_files(tmp_path: Path) -> None:
    folder = Path(made(tmp_path).input)
    times = {path.name: path.stat().st_mtime for path in folder.iterdir()}
    assert sorted(times, key=times.__getitem__) == sorted(times)
    assert len(set(times.values())) == FILES
    orders = [json.loads(line) for name in sorted(times) for line in (folder / name).read_text().splitlines()]
    assert len({order["order_id"] for order in orders}) == FILES * ORDERS_PER_FILE
    assert [order["event_time"] for order in orders] == sorted(order["event_time"] for order in orders)
    assert len(Counter(order["shop"] for order in orders)) == 4


@pytest.mark.parametrize(
    "taken",
    [
        "spark_jobs/orders.py",
        "spark_jobs/oracles/orders.py",
        "config/streams/orders.yaml",
        "config/drills/kill_orders.yaml",
        "var/input/orders/mine.json",
        "var/checkpoints/orders/metadata",
        "var/output/orders/part.parquet",
    ],
)
def test_nothing_is_written_if_anything_of_the_name_exists(tmp_path: Path, taken: str) -> None:
    (tmp_path / taken).parent.mkdir(parents=True)
    (tmp_path / taken).write_text("mine")
    with pytest.raises(ConfigError, match="nothing was written"):
        made(tmp_path)
    assert files_in(tmp_path) == {taken}
    assert (tmp_path / taken).read_text() == "mine"


@pytest.mark.parametrize(
    "name", ["Orders", "orders-2", "../orders", "orders__fork", "", "9", "json", "pyspark", "o" * 64]
)
def test_a_name_that_no_stream_can_have_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="name"):
        made(tmp_path, name)
    assert files_in(tmp_path) == set()


@pytest.mark.parametrize("template", [JOB, SCRIPT])
def test_a_new_stream_of_a_storage_names_what_is_there(
    tmp_path: Path, template: Template, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, url = bucket(monkeypatch), DataUrl("s3a://lake/streams")
    written = new_stream("orders", template, project=tmp_path, data=url)
    (stream,) = load_catalog(tmp_path, tmp_path / "var", data_url=url).streams.values()
    assert written.input == stream.source.path == "s3a://lake/streams/input/orders"
    assert lake.contents() == {f"lake/streams/input/orders/{name}": lines.encode() for name, lines in template.sample()}
    assert not (tmp_path / "var").exists()
    assert [found for found in lint_declared(stream, ()) if found.severity is Severity.ERROR] == []
    for file in files_in(tmp_path):
        (tmp_path / file).unlink()
    with pytest.raises(ConfigError, match=r"s3a://lake/streams/input/orders exist.*nothing was written"):
        new_stream("orders", template, project=tmp_path, data=url)
    assert files_in(tmp_path) == set()


def test_a_name_of_63_characters_has_a_drill_too(tmp_path: Path) -> None:
    made(tmp_path, "o" * 63)
    assert list(load_drills(tmp_path)[0]) == ["o" * 63]


def test_an_empty_folder_becomes_a_project_and_the_next_commands_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("STREAMWARDEN_PROJECT", "STREAMWARDEN_DATA", "STREAMWARDEN_LOCAL_DATA", "STREAMWARDEN_STORE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    assert run(["new", "orders"]) == Exit.OK
    shown = capsys.readouterr().out
    commands = shown.partition("Next:")[2].split("\n")
    assert [each.strip() for each in commands if each.strip()] == [
        "streamwarden validate",
        "streamwarden start orders",
        "streamwarden drill run kill_orders",
    ]
    assert run(["validate"]) == Exit.OK
    assert run(["new", "orders"]) == Exit.USAGE
    assert run(["new", "words", "--script"]) == Exit.OK
    assert "streamwarden logs words --follow" in capsys.readouterr().out


def test_a_script_has_no_other_sink_and_an_unknown_kind_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["new", "orders", "--script", "--sink", "delta"]) == Exit.USAGE
    assert run(["new", "orders", "--sink", "lake"]) == Exit.USAGE
    assert "parquet, delta, iceberg" in capsys.readouterr().err
    assert files_in(tmp_path) == set()


def test_an_order_from_the_future_cannot_move_the_watermark_of_a_new_stream() -> None:
    """The job keeps it aside, and the oracle expects that."""
    texts = rendered("orders", JOB, "input/orders")
    assert 'not_after={"event_time": timedelta(hours=1)}' in texts["spark_jobs/orders.py"]
    assert "not_after=60 * MINUTE" in texts["spark_jobs/oracles/orders.py"]
