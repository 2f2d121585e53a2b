"""The files around a drill that changed while it ran, whoever wrote them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.adapters.store import Store
from streamwarden.drills.records.outside import Outside
from streamwarden.lifecycle.driver import DriverRecord, ExitKind, ExitRecord
from streamwarden.services.drilling.listing import LISTING, Around, changes, listed
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sources.files import FilesSource
from streamwarden.stream.spec import StreamSpec

T0 = 1_700_000_000.0
SCRIPT = """
rows = spark.readStream.json("input/clicks/*.json")
rows.writeStream.format("parquet").option("checkpointLocation", "checkpoints/c").start("output/clicks")
"""


class Home:
    """A project with its data folder, a stream with `build`, and a script."""

    def __init__(self, root: Path, store: Store) -> None:
        self.root, self.data, self.run = root, root / "var", root / "var/drills/run"
        self.run.mkdir(parents=True)
        (root / "clicks.py").write_text(SCRIPT)
        self.origin = StreamSpec(
            name="orders",
            job=str(root / "job.py"),
            checkpoint=str(self.data / "checkpoints/orders"),
            source=FilesSource(path=str(self.data / "input/orders")),
            sink=ParquetSink(path=str(self.data / "output/orders")),
            project=str(root),
            data=str(self.data),
        )
        script = StreamSpec(
            name="clicks", job=str(root / "clicks.py"), checkpoint="/c", project=str(root), data=str(self.data)
        )
        self.store = store
        self.around = Around(lambda: [self.origin, script], store)

    def write(self, *places: str) -> None:
        for place in places:
            (self.root / place).parent.mkdir(parents=True, exist_ok=True)
            with (self.root / place).open("a") as file:
                file.write("x")

    def found(self, recorded: Outside | None = None) -> Outside:
        return self.around.compared(self.origin, self.run, recorded or Outside(), T0 + 100)

    def driver(self, stream: str, ended: float | None) -> None:
        record = DriverRecord(
            driver_id=stream,
            stream=stream,
            checkpoint="/c",
            token=1,
            folder="/f",
            launched_by="test",
            launched_at=T0 - 10,
        )
        self.store.drivers.launched(record)
        if ended is not None:
            self.store.drivers.exited(stream, ExitRecord(kind=ExitKind.FAILED, ended_at=ended))


@pytest.fixture
def home(tmp_path: Path, store_url: str) -> Iterator[Home]:
    with Store(store_url) as store:
        store.migrate()
        yield Home(tmp_path, store)


def test_a_file_that_is_new_changed_or_gone_is_found_wherever_it_is(home: Home) -> None:
    kept = ("var/marker", "var/state/a", "lib/b", "c")
    home.write(*kept)
    home.around.keep(home.origin, home.run, T0)
    assert home.found().changed == ()
    home.write("var/marker", "var/new", "lib/udf/d")
    (home.root / "c").unlink()
    os.utime(home.root / "lib/b", (1, 1))
    changed = [str(home.root / name) for name in ("c", "lib/b", "lib/udf/d", "var/marker", "var/new")]
    assert sorted(home.found().changed) == changed
    assert "exactly-once cannot be proven" in str(home.found().unprovable)
    seen = Outside(files=(str(home.data / "new"),))
    assert str(home.data / "new") not in home.found(seen).changed, "the driver saw this one, and says who wrote it"


def test_what_streams_people_and_streamwarden_write_is_no_finding(home: Home) -> None:
    """The negative control."""
    home.around.keep(home.origin, home.run, T0)
    home.write(
        *("var/input/orders/1.json", "var/output/orders/p", "var/checkpoints/orders/offsets/1"),
        *("var/input/clicks/1.json", "var/output/clicks/p", "var/checkpoints/c/offsets/1"),
        *("var/drills/run/work/marker", "var/drivers/d/driver.log", "var/streamwarden.db-wal", "var/airflow/log"),
        *("job.py", "config/streams/orders.yaml", "README.md", ".git/index", "a/__pycache__/b", "spark-warehouse/t"),
    )
    assert home.found() == Outside()


def test_a_change_while_others_ran_is_said_and_attributed_to_nobody(home: Home) -> None:
    home.around.keep(home.origin, home.run, T0)
    home.write("var/marker")
    home.driver("orders__fork_1", None)
    home.driver("earlier", T0 - 1)
    assert home.found().beside == ()
    home.driver("clicks", T0 + 1)
    found = home.found()
    assert found.beside == ("clicks",)
    assert found.unprovable is None
    assert "the drivers of clicks" in next(found.unproven())


def test_a_listing_is_bounded_and_says_so(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / str(number)).touch()
    before = listed([str(tmp_path)], frozenset(), T0, most=3)
    assert (len(before.files), before.whole) == (3, False)
    (tmp_path / "a").touch()
    after = listed([str(tmp_path)], frozenset(), T0, most=3)
    assert changes(before, after) == []
    name = next(iter(before.files))
    assert changes(before, replace(after, files={**after.files, name: [1, 1]})) == [name]


def test_a_drill_without_a_listing_has_what_its_drivers_recorded(home: Home) -> None:
    assert home.found(Outside(servers=("db:1",))) == Outside(servers=("db:1",))
    home.around.keep(home.origin, home.run, T0)
    assert (home.run / LISTING).exists()
