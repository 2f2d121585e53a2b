"""Deployments in a stream's history: a launch with other code, packages or configuration than the launch before."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.adapters.store import Store
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import DriverRecord
from streamwarden.lifecycle.events import EventKind
from streamwarden.services.analysis.history import NAMED, history
from streamwarden.services.fleet.fleet import Fleet
from streamwarden.services.fleet.launching.deployed_code import code_of, packages
from streamwarden.stream.spark import DeployMode, SparkSpec
from streamwarden.stream.spec import StreamSpec, TriggerSpec

HOUR = 3600.0


class Launches:
    """A project with a job that imports a module, and launches of it, one an hour; no driver is started."""

    def __init__(self, root: Path, store: Store) -> None:
        self.root, self.store, self.now = root, store, 0.0
        self.fleet = Fleet(store, root / "var", clock=lambda: self.now)
        self.write("spark_jobs/orders.py", "from shared.prices import price\n\ndef build(spark, spec): ...\n")
        self.write("spark_jobs/shared/prices.py", "import json\n\ndef price(): return 1\n")
        self.write("spark_jobs/other.py", "OTHER = 1\n")
        self.spec = StreamSpec(
            name="orders",
            job=str(root / "spark_jobs/orders.py"),
            checkpoint=str(root / "var/checkpoint"),
            project=str(root),
        )

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def launch(self) -> DriverRecord:
        self.now += HOUR
        record, _ = self.fleet.submit(self.spec, launched_by="ann", through=lambda folder: "application_1", env={})
        self.fleet.conclude(record.driver_id, None)
        return record

    def deployed(self, since: float = 0.0) -> list[tuple[float, str, str]]:
        """(hour, who, what) of each deployment."""
        found = history(self.store, "orders", since)
        return [(each.at / HOUR, each.who, each.why) for each in found if each.kind is EventKind.DEPLOYED]


@pytest.fixture
def launches(tmp_path: Path, store: Store) -> Launches:
    return Launches(tmp_path, store)


def test_an_unchanged_restart_is_not_a_deployment(launches: Launches) -> None:
    """A file was touched, and one that the job does not import was changed."""
    launches.launch()
    launches.write("spark_jobs/orders.py", (launches.root / "spark_jobs/orders.py").read_text())
    launches.write("spark_jobs/other.py", "OTHER = 2\n")
    launches.launch()
    assert [each.kind for each in history(launches.store, "orders", 0.0)].count(EventKind.LAUNCHED) == 2
    assert launches.deployed() == []


def test_a_changed_job_file_is_a_deployment_at_its_launch(launches: Launches) -> None:
    launches.launch()
    launches.write("spark_jobs/orders.py", "def build(spark, spec): return None\n")
    launches.launch()
    launches.launch()
    assert launches.deployed() == [(2.0, "ann", "spark_jobs/orders.py was changed")]


def test_so_is_a_changed_module_that_the_job_imports(launches: Launches) -> None:
    launches.launch()
    launches.write("spark_jobs/shared/prices.py", "def price(): return 2\n")
    launches.launch()
    assert launches.deployed() == [(2.0, "ann", "spark_jobs/shared/prices.py was changed")]


def test_a_changed_declaration_says_the_old_and_the_new_value_and_no_secret(launches: Launches) -> None:
    launches.launch()
    conf = {"spark.hadoop.token": "s3cret-of-yesterday", "spark.openlineage.parentRunId": "1"}
    launches.spec = replace(launches.spec, trigger=TriggerSpec(processing_time=5.0), spark=SparkSpec(conf=conf))
    launches.launch()
    launches.spec = replace(launches.spec, spark=SparkSpec(conf={**conf, "spark.openlineage.parentRunId": "2"}))
    launches.launch()
    ((_, _, said),) = launches.deployed()
    assert said.endswith("trigger.processing_time: 2.0 → 5.0")
    assert "spark.conf.spark.hadoop.token: none → *********(redacted)" in said
    assert "s3cret" not in said


def test_a_package_of_another_version_is_a_deployment(launches: Launches) -> None:
    """As an upgrade of Spark between the two launches leaves it."""
    folder = Path(launches.launch().folder)
    code = json.loads((folder / files.CODE).read_text())
    assert code["packages"]["pyspark"].startswith("4.")
    now = code["packages"]["pyspark"]
    files.write_document(folder / files.CODE, {**code, "packages": {**code["packages"], "pyspark": "4.0.0"}})
    launches.launch()
    assert launches.deployed() == [(2.0, "ann", f"pyspark: 4.0.0 → {now}")]


def test_a_large_upgrade_names_some_packages_and_counts_the_others(launches: Launches) -> None:
    folder = Path(launches.launch().folder)
    code = json.loads((folder / files.CODE).read_text())
    old = dict.fromkeys(sorted(code["packages"])[: NAMED + 3], "0")
    files.write_document(folder / files.CODE, {**code, "packages": {**code["packages"], **old}})
    launches.launch()
    ((_, _, said),) = launches.deployed()
    assert said.count("0 → ") == NAMED
    assert said.endswith("; and 3 more")


@pytest.mark.parametrize(
    "lose", [lambda folder: (folder / files.CODE).unlink(), lambda folder: None], ids=["old", "new"]
)
def test_a_launch_without_a_digest_is_no_deployment_by_that(launches: Launches, lose: Callable[[Path], None]) -> None:
    """An earlier version of Streamwarden kept none. The next launch is compared with the last one that has some."""
    launches.launch()
    launches.write("spark_jobs/orders.py", "def build(spark, spec): return None\n")
    lose(Path(launches.launch().folder))
    launches.launch()
    assert len(launches.deployed()) == 1


def test_a_folder_that_was_removed_or_is_elsewhere_hides_no_change_and_invents_none(launches: Launches) -> None:
    first = Path(launches.launch().folder)
    for each in first.iterdir():
        if each.is_file():
            each.unlink()
    launches.launch()
    assert launches.deployed() == []


def test_the_first_launch_of_a_range_is_compared_with_the_one_before_the_range(launches: Launches) -> None:
    launches.launch()
    launches.write("spark_jobs/orders.py", "def build(spark, spec): return None\n")
    launches.launch()
    assert launches.deployed(since=2 * HOUR) == [(2.0, "ann", "spark_jobs/orders.py was changed")]


def test_a_name_that_looks_like_a_secrets_hides_no_change(launches: Launches) -> None:
    launches.write("spark_jobs/token_counts.py", "def build(spark, spec): ...\n")
    launches.spec = replace(launches.spec, job=str(launches.root / "spark_jobs/token_counts.py"))
    launches.launch()
    launches.write("spark_jobs/token_counts.py", "def build(spark, spec): return None\n")
    launches.launch()
    assert launches.deployed() == [(2.0, "ann", "spark_jobs/token_counts.py was changed")]


def test_modules_that_import_each_other_are_read_once_and_a_job_that_is_no_python_is_one_file(tmp_path: Path) -> None:
    for name, text in {"a.py": "import b", "b.py": "from . import a\nimport missing", "c.py": "def ("}.items():
        (tmp_path / name).write_text(text)
    found = [
        code_of(StreamSpec(name="s", job=str(tmp_path / job), checkpoint="/c")) for job in ("a.py", "c.py", "d.py")
    ]
    assert [sorted(Path(file).name for file in each["files"]) for each in found] == [["a.py", "b.py"], ["c.py"], []]


def test_shipped_files_count_and_the_packages_of_a_cluster_are_its_own(launches: Launches) -> None:
    launches.write("lib.zip", "1")
    shipped = SparkSpec(master="yarn", deploy_mode=DeployMode.CLUSTER, py_files=(str(launches.root / "lib.zip"),))
    found = code_of(replace(launches.spec, spark=shipped))
    assert "lib.zip" in found["files"]
    assert found["packages"] == {}


def test_the_first_folder_of_the_path_has_the_package_that_is_imported(tmp_path: Path) -> None:
    for folder, version in (("one", "2.0"), ("two", "1.0")):
        (tmp_path / folder / f"Some_Package-{version}.dist-info").mkdir(parents=True)
    path = [str(tmp_path / each) for each in ("missing", "one", "two")]
    assert packages(path)["some_package"] == "2.0"
