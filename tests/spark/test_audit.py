"""Audits of a stream that runs, and of copies of its run whose output was changed by hand."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.config.loading import load_stream
from streamwarden.health.causes import AUDIT_BALANCE
from streamwarden.services.auditing.auditing import audit
from streamwarden.services.auditing.records import record
from streamwarden.services.replay.flights import departures
from streamwarden.spark_settings import SparkSpec
from streamwarden.stream import StreamSpec, TriggerSpec
from streamwarden.verification.balance import Audit, Outcome
from support.drivers import QUICK, Project, project
from support.forged_output import Rows, copied, rewrite

pytestmark = pytest.mark.spark

REPOSITORY = Path(__file__).parents[2]
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
        self.newest: Audit

    def publish(self, files: int) -> None:
        events = departures().drop(columns="order").iloc[STORM]
        for number in range(self.published, self.published + files):
            hidden = self.folder / f".{number:02d}"
            hidden.write_text(events.iloc[number * 40 : number * 40 + 40].to_json(orient="records", lines=True))
            os.utime(hidden, (1_700_000_000 + number, 1_700_000_000 + number))
            hidden.rename(self.folder / f"storm-{number:02d}.json")
        self.published += files


def driver_runs(made: Project, driver: str) -> bool:
    record = made.store.drivers.get(driver)
    return record is not None and record.exit is None


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with project(tmp_path_factory.mktemp("audit")) as made:
        stream = Running(made)
        stream.publish(12)
        driver = made.start(stream.spec)
        made.await_batches(stream.spec, 12)
        stream.whole = audit(stream.spec)
        stream.publish(8)
        made.await_batches(stream.spec, 20)
        stream.newest = audit(stream.spec, last=5, share=0.5)
        assert driver_runs(made, driver)
        yield stream


def test_the_books_balance_while_the_stream_runs(running: Running) -> None:
    found = running.whole
    assert found.outcome is Outcome.BALANCED, found.to_dict()
    assert found.range.after == -1
    assert found.counts == "flights"
    assert found.amounts == ["flights", "departures", "cancellations", "delay_minutes"]
    totals = {side: amounts["flights"] for side, amounts in found.totals.items()}
    assert totals["input"] == totals["output"] + totals["closing"]
    assert totals["input"] + totals["dropped"] == 12 * 40 * 4  # each flight is in four windows
    assert totals["dropped"] > 0
    assert totals["output"] > 0


def test_the_books_of_the_newest_batches_begin_with_the_state_before_them(running: Running) -> None:
    found = running.newest
    assert found.outcome is Outcome.BALANCED, found.to_dict()
    assert len(found.range.batches) == 5
    assert found.totals["opening"]["flights"] > 0
    assert found.totals["output"]["flights"] > 0


def test_a_deleted_row_and_swapped_values_are_named_and_are_an_incident(running: Running, tmp_path: Path) -> None:
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
    found = audit(copy)
    assert found.outcome is Outcome.UNBALANCED
    assert found.unbalanced == 3
    lost = next(entry for entry in found.worst if "flights" in entry.differences)
    assert lost.key["carrier"] == gone[0]["carrier"]
    assert lost.key["window_end"] == gone[0]["window_end"].strftime("%Y-%m-%dT%H:%M:%S.000Z")
    assert lost.differences["flights"] == gone[0]["flights"]
    swapped = [entry for entry in found.worst if entry is not lost]
    assert [list(entry.differences) for entry in swapped] == [["delay_minutes"], ["delay_minutes"]]
    assert sum(entry.differences["delay_minutes"] for entry in swapped) == 0
    assert {entry.batch for entry in found.worst} == set(found.batches)
    assert None not in found.batches

    store = running.project.store
    evidence = record(found, tmp_path, store, 1_000.0)
    assert json.loads(evidence.read_text())["unbalanced"] == 3
    (incident,) = [each for each in store.incidents.open(found.stream) if each.check == AUDIT_BALANCE]
    assert str(evidence) in incident.advice
    record(running.newest, tmp_path, store, 2_000.0)  # it balances, and says nothing of the batches before
    assert incident.incident_id in {each.incident_id for each in store.incidents.open(found.stream)}
    record(replace(running.whole, range=found.range), tmp_path, store, 3_000.0)
    assert not [each for each in store.incidents.open(found.stream) if each.check == AUDIT_BALANCE]
