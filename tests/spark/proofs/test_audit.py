"""Audits of a stream that runs, and of copies of its run whose output was changed by hand."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from streamwarden.adapters.store import Store
from streamwarden.cli.exit_codes import Exit
from streamwarden.config.loading import load_stream
from streamwarden.health.check_relations import AUDIT_BALANCE
from streamwarden.services.auditing import auditing
from streamwarden.services.auditing.auditing import audit
from streamwarden.services.auditing.records import FOLDER, record
from streamwarden.services.auditing.work import WORK
from streamwarden.services.fleet.launching.one_off_spark import run_program
from streamwarden.services.replay.flights import departures
from streamwarden.stream.spark import SparkSpec
from streamwarden.stream.spec import StreamSpec, TriggerSpec
from streamwarden.verification.comparing.balance import Audit, Outcome, Range
from support.checkpoints.forged_output import Rows, copied, rewrite
from support.command_line import Answer, in_process, in_shell
from support.spark.drivers import QUICK, Project, project
from support.spark.state_looks import read_here

pytestmark = pytest.mark.spark

REPOSITORY = Path(__file__).parents[3]
QUARTER = 900_000
"""Milliseconds from one window of the stream to the next; each is four of them."""
STORM = slice(58_255, 59_055)
"""Of all flights in the order of departure: a stretch in which many come too late for some window."""


class Running:
    """The flights of a snowstorm while their stream runs, and what audits of it found meanwhile."""

    def __init__(self, made: Project) -> None:
        self.project = made
        spec = load_stream(REPOSITORY / "config/streams/flight_departures.yaml", project=REPOSITORY, data=made.data)
        self.spec: StreamSpec = replace(
            spec,
            source=replace(spec.source, max_files_per_trigger=1),
            trigger=TriggerSpec(processing_time=0.5),
            state=replace(spec.state, shuffle_partitions=2),
            spark=SparkSpec(master="local[1]", driver_memory=700 * 2**20, conf=dict(QUICK)),
        )
        self.folder = Path(str(self.spec.source.path))
        self.folder.mkdir(parents=True)
        self.published = 0
        self.whole: Audit
        self.newest: Answer

    def publish(self, files: int) -> None:
        events = departures().drop(columns="order").iloc[STORM]
        for number in range(self.published, self.published + files):
            hidden = self.folder / f".{number:02d}"
            hidden.write_text(events.iloc[number * 40 : number * 40 + 40].to_json(orient="records", lines=True))
            os.utime(hidden, (1_700_000_000 + number, 1_700_000_000 + number))
            hidden.rename(self.folder / f"storm-{number:02d}.json")
        self.published += files


def audited(project: Path, data: Path, *arguments: str) -> Answer:
    """`streamwarden audit …` as a shell runs it."""
    data.mkdir(parents=True, exist_ok=True)
    return in_shell(data, "--project", str(project), "--data", str(data), "audit", *arguments, "--json", timeout=400)


def driver_runs(made: Project, driver: str) -> bool:
    record = made.store.drivers.get(driver)
    return record is not None and record.exit is None


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, spark: Any) -> Iterator[Running]:
    """Audited once in the session of the tests, and once by a process of its own, as a shell does it."""
    with project(tmp_path_factory.mktemp("audit")) as made:
        stream = Running(made)
        stream.publish(12)
        driver = made.start(stream.spec)
        made.await_batches(stream.spec, 12)
        with pytest.MonkeyPatch.context() as patch:
            read_here(patch, spark)
            stream.whole = audit(stream.spec)
        stream.publish(8)
        made.await_batches(stream.spec, 20)
        stream.newest = audited(REPOSITORY, made.data, "flight_departures", "--batches", "5", "--share", "0.8")
        assert driver_runs(made, driver)
        yield stream


def test_the_books_balance_while_the_stream_runs(running: Running) -> None:
    found = running.whole
    assert found.outcome is Outcome.BALANCED, found.to_dict()
    assert found.range.after == -1
    assert found.counts == "flights"
    assert found.amounts == ("flights", "departures", "cancellations", "delay_minutes")
    totals = {side: amounts["flights"] for side, amounts in found.totals.items()}
    assert totals["input"] == totals["output"] + totals["closing"]
    assert totals["input"] + totals["dropped"] == 12 * 40 * 4  # each flight is in four windows
    assert totals["dropped"] > 0
    assert totals["output"] > 0


def test_the_books_of_the_newest_batches_begin_with_the_state_before_them(running: Running) -> None:
    assert running.newest.code == Exit.OK, running.newest
    found = running.newest.json
    assert found["outcome"] == "balanced", found
    assert found["upto"] - found["after"] == 5
    assert found["totals"]["opening"]["flights"] > 0
    assert found["totals"]["output"]["flights"] > 0
    assert json.loads(Path(found["evidence"]).read_text())["sentence"] == found["sentence"]


def open_windows(spec: StreamSpec, batch: int) -> dict[tuple[str, str, str], tuple[int, int]]:
    """Flights and departures of each window that is open after a batch: the files that the batches read, folded here.
    Only the watermarks come from the offset log."""
    planned = {
        number: Path(spec.checkpoint, "offsets", str(number)).read_text().splitlines() for number in range(batch + 1)
    }
    marks = {number: json.loads(lines[1])["batchWatermarkMs"] for number, lines in planned.items()}
    ends = {number: json.loads(lines[2])["logOffset"] for number, lines in planned.items()}
    files = sorted(Path(str(spec.source.path)).iterdir())
    folded: dict[tuple[int, str, str], list[int]] = {}
    for number in range(batch + 1):
        for file in files[ends.get(number - 1, -1) + 1 : ends[number] + 1]:
            for row in map(json.loads, file.read_text().splitlines()):
                at = int(pd.Timestamp(row["event_time"]).timestamp() * 1000)
                for start in range(at - at % QUARTER - 3 * QUARTER, at + 1, QUARTER):
                    if start + 4 * QUARTER > marks.get(number - 1, 0):
                        group = folded.setdefault((start, row["origin"], row["carrier"]), [0, 0])
                        group[0] += 1
                        group[1] += row["departed_at"] is not None
        folded = {group: counts for group, counts in folded.items() if group[0] + 4 * QUARTER > marks[number]}
    return {
        (f"{pd.Timestamp(start, unit='ms'):%F %T}", origin, carrier): (flights, departures)
        for (start, origin, carrier), (flights, departures) in folded.items()
    }


def test_state_is_looked_at_while_the_stream_runs(running: Running) -> None:
    """As a user does it. The stream commits on, and nothing of its checkpoint has another content afterwards."""
    spec, data = running.spec, running.project.data
    before = {path: path.stat() for path in Path(spec.checkpoint).rglob("*") if path.is_file()}
    shell = ("--project", str(REPOSITORY), "--data", str(data), "state")
    look = in_shell(data, *shell, "show", "flight_departures", "--rows", "100000", "--json")
    assert look.code == Exit.OK, look
    found, (batch,) = look.json, look.json["batches"]
    fields = found["fields"]
    assert fields == ["window.start", "window.end", "origin", "carrier"]
    seen = {
        (entry["key"][0], *entry["key"][2:]): tuple(json.loads(entry["value"]).values())[:2]
        for entry in found["entries"]
    }
    assert len(seen) == found["rows"] > 100
    assert seen == open_windows(spec, batch)
    assert seen != open_windows(spec, batch - 1)
    for path, stat in before.items():
        assert not path.exists() or (path.stat().st_mtime_ns, path.stat().st_size) == (stat.st_mtime_ns, stat.st_size)
    assert not [path for path in (Path(data) / FOLDER / WORK).iterdir() if path.is_dir()]


def test_a_stream_whose_books_cannot_be_balanced_has_an_exit_code_of_its_own(tmp_path: Path) -> None:
    answer = audited(REPOSITORY, tmp_path, "event_dedup")
    assert answer.code == Exit.UNDECIDED, answer
    assert answer.json["impossible"] == "no batch was committed yet"


@pytest.mark.full  # in the first tier the audits read a checkpoint that Spark purges beside them
def test_a_checkpoint_that_is_purged_while_the_audit_reads_is_audited(
    running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it is removed, before Spark reads the first file."""
    copy = copied(running.spec, tmp_path)

    def overtaken(*given: Any, **options: Any) -> int:
        shutil.rmtree(copy.checkpoint)
        return run_program(*given, **options)

    monkeypatch.setattr(auditing, "run_program", overtaken)
    found = audit(copy, last=5)
    assert found.outcome is Outcome.BALANCED, found.to_dict()
    assert found.totals["opening"]["flights"] > 0
    assert not [path for path in (Path(copy.data) / FOLDER / WORK).iterdir() if path.is_dir()]


def declared(copy: StreamSpec, project: Path) -> None:
    """A project with the job and the file of the stream, which names the places of a copy."""
    (project / "spark_jobs").mkdir()
    shutil.copy(copy.job, project / "spark_jobs")
    text = (REPOSITORY / "config/streams/flight_departures.yaml").read_text()
    for own, other in (
        ("input/flights", copy.source.path),
        ("output/flight_departures", copy.sink.path),
        ("checkpoints/flight_departures", copy.checkpoint),
    ):
        assert text.count(f": {own}") == 1
        text = text.replace(f": {own}", f": {other}")
    file = project / "config/streams/flight_departures.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(text)


def test_a_deleted_row_and_swapped_values_are_named_and_are_an_incident(
    running: Running, tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two groups of one window with as many flights exchange their minutes: only the sums of each group show that."""
    gone: Rows = []

    def change(rows: Rows) -> Rows:
        gone.append(rows.pop(0))
        one, other = next(
            (one, other)
            for number, one in enumerate(rows)
            for other in rows[number + 1 :]
            if all(one[name] == other[name] for name in ("window_start", "flights", "departures"))
            and one["delay_minutes"] != other["delay_minutes"]
        )
        one["delay_minutes"], other["delay_minutes"] = other["delay_minutes"], one["delay_minutes"]
        return rows

    copy = copied(running.spec, tmp_path)
    rewrite(copy, change)
    declared(copy, tmp_path)
    read_here(monkeypatch, spark)
    data = tmp_path / "var"
    answer = in_process(tmp_path, "--data", str(data), "audit", "flight_departures", "--share", "1", "--json")
    assert answer.code == Exit.BAD, answer
    found = answer.json
    assert found["unbalanced"] == 3
    lost = next(entry for entry in found["worst"] if "flights" in entry["differences"])
    assert lost["key"]["carrier"] == gone[0]["carrier"]
    assert lost["key"]["window_end"] == gone[0]["window_end"].strftime("%Y-%m-%dT%H:%M:%S.000Z")
    assert lost["differences"]["flights"] == gone[0]["flights"]
    swapped = [entry for entry in found["worst"] if entry is not lost]
    assert [list(entry["differences"]) for entry in swapped] == [["delay_minutes"], ["delay_minutes"]]
    assert sum(entry["differences"]["delay_minutes"] for entry in swapped) == 0
    assert {entry["batch"] for entry in found["worst"]} == set(found["batches"])
    assert None not in found["batches"]

    with Store(f"sqlite:///{data / 'streamwarden.db'}", busy_timeout=20) as store:

        def incidents() -> list[str]:
            opened = store.incidents.open(found["stream"])
            return [incident.advice for incident in opened if incident.check == AUDIT_BALANCE]

        assert [found["evidence"] in advice for advice in incidents()] == [True]
        newest = replace(running.whole, range=Range(after=found["upto"] - 5, upto=found["upto"]))
        record(newest, data, store, time.time())  # it balances, and says nothing of the batches before
        assert incidents()
        record(replace(running.whole, range=Range(after=found["after"], upto=found["upto"])), data, store, time.time())
        assert not incidents()
