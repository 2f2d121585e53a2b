"""What `streamwarden new --sink` writes for a Delta and an Iceberg table, run as a person runs it.

The stream writes its table, an audit balances it, and the drill of the template kills a fork, which the oracle of the
template and a twin judge. The negative control of each audit: a data file of the table is gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from streamwarden.cli.exit_codes import Exit
from streamwarden.services.workspace import Workspace
from support.command_line import in_process
from support.servers.object_store import BUCKET, ObjectStore
from support.spark.drill_project import audited, opened, run_and_stop, run_drill
from support.spark.environments import python_with

pytestmark = [pytest.mark.full, pytest.mark.spark, pytest.mark.timeout(1200)]

BATCHES = 4
TABLE = f"s3a://{BUCKET}/orders/table"


@contextmanager
def new(root: Path, sink: str, python: Path, **edited: dict[str, str]) -> Iterator[Workspace]:
    """The project in which `new` wrote the stream `orders`.

    Args:
        edited: folder of `config` -> what a person changes in the one file there: text -> its replacement.
    """
    made = in_process(root, "new", "orders", "--sink", sink, "--python", str(python))
    assert made.code == Exit.OK, made
    for folder, changes in edited.items():
        (file,) = (root / "config" / folder).iterdir()
        for text, instead in changes.items():
            assert text in file.read_text()
            file.write_text(file.read_text().replace(text, instead))
    assert in_process(root, "validate").code == Exit.OK
    with opened(root) as workspace:
        yield workspace


def require_proof(workspace: Workspace) -> None:
    """The template's drill passes, by its oracle and by a twin."""
    run = run_drill(workspace, "kill_orders")
    assert run.passed, run.reason
    assert run.facts["reconciliation"]["exactly_once"]
    assert run.facts["twin"]["outcome"]["exactly_once"]


@pytest.mark.parametrize("sink", ["delta", "iceberg"])
def test_a_new_stream_into_a_table_on_a_disk(sink: str, tmp_path: Path) -> None:
    with new(tmp_path, sink, python_with(sink)) as workspace:
        spec = run_and_stop(workspace, BATCHES, "orders")
        assert audited(workspace, "orders").code == Exit.OK
        require_proof(workspace)
        largest(Path(str(spec.sink.path))).unlink()
        assert audited(workspace, "orders").code == Exit.BAD


def test_a_new_stream_into_a_delta_table_in_an_object_store(lake: ObjectStore, tmp_path: Path) -> None:
    python = python_with("delta", "s3", extras=("verify",))
    stream = {"path: output/orders ": f"path: {TABLE} ", "\ncheckpoint:": "\nstorage: {connection: lake}\ncheckpoint:"}
    drill = {"rewind: all, ": f"rewind: all, at: '{TABLE}-drills', "}
    with new(tmp_path, "delta", python, streams=stream, drills=drill) as workspace:
        run_and_stop(workspace, BATCHES, "orders")
        assert audited(workspace, "orders").code == Exit.OK
        require_proof(workspace)
        with lake.without(largest_object(lake)):
            assert audited(workspace, "orders").code == Exit.BAD


def largest(table: Path) -> Path:
    """The largest data file of a table: it has rows. Delta leaves one without rows beside the table, too."""
    return max(table.rglob("*.parquet"), key=lambda file: file.stat().st_size)


def largest_object(lake: ObjectStore) -> str:
    """The key of the largest data file of the table in the store."""
    listed = lake.client().list_objects_v2(Bucket=BUCKET, Prefix="orders/table/part-")["Contents"]
    return str(max(listed, key=lambda each: each["Size"])["Key"])
