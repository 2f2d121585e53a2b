"""What goes wrong with a job, its checkpoint or its host is named so that a person can act on it."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.formats.logs import log_position
from streamwarden.lifecycle.driver import ExitKind, ExitRecord
from streamwarden.stream.spec import SinkSpec, SourceSpec, StreamSpec, TriggerSpec
from support.spark.drivers import COUNTS, Project, project, until

pytestmark = pytest.mark.spark


SPOILED = 3
"""The input file with rows that do not fit."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    huge = json.dumps({"id": 1, "key": 1, "at": "2026-01-01T00:00:00Z", "note": "x" * (2**20 + 1)})
    with project(tmp_path_factory.mktemp("failures")) as it:
        it.publish(SPOILED)
        it.publish(1, extra=("{broken", "", huge))
        yield it


@pytest.fixture(scope="module")
def lenient(made: Project) -> tuple[StreamSpec, ExitRecord]:
    """A stream with a quarantine, which has read all input."""
    spec = made.spec("lenient", COUNTS, trigger=TriggerSpec(available_now=True))
    return spec, end_of(made, spec)


def end_of(made: Project, spec: StreamSpec) -> ExitRecord:
    driver_id = made.start(spec)
    record = made.await_end(driver_id)
    until("nothing left", lambda: not made.living())
    return record


@pytest.mark.full  # in the first tier the next test has a line of the job named
def test_a_job_that_raises_at_import(made: Project) -> None:
    spec = made.spec(
        "at_import", "import math\nfrom nowhere import nothing\n\ndef build(spark, spec):\n    return None\n"
    )
    record = end_of(made, spec)
    assert (record.kind, record.error_class, record.curable) == (ExitKind.FAILED, "ModuleNotFoundError", False)
    assert record.message == f"{spec.job}:2: ModuleNotFoundError: No module named 'nowhere'"
    assert record.next_step


def test_a_job_that_raises_at_build(made: Project) -> None:
    spec = made.spec("at_build", COUNTS.replace('"key").agg', '"no_such_column").agg').replace('"key")', '"kee")'))
    record = end_of(made, spec)
    assert (record.kind, record.curable) == (ExitKind.FAILED, False)
    assert record.error_class == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
    line = next(
        i for i, text in enumerate(Path(spec.job).read_text().splitlines(), 1) if "agg(" in text or "groupBy" in text
    )
    assert record.message.startswith(f"{spec.job}:")
    assert abs(int(record.message.split(":")[1]) - line) <= 3
    assert "kee" in record.message


def test_a_job_that_raises_in_batch_3(made: Project) -> None:
    """Batches 0 to 2 are committed and stay so; the message names the job's line and what it said."""
    spec = made.spec(
        "in_batch_3",
        """
        def each(frame, batch_id):
            if batch_id == 3:
                raise ValueError("the rate of batch 3 is missing")
            frame.count()


        def build(spark, spec):
            lines = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(spec.source.path)
            return lines.writeStream.foreachBatch(each)
        """,
    )
    record = end_of(made, spec)
    assert (record.kind, record.error_class, record.curable) == (
        ExitKind.FAILED,
        "FOREACH_BATCH_USER_FUNCTION_ERROR",
        True,
    )
    assert record.message == f"{spec.job}:3: ValueError: the rate of batch 3 is missing"
    assert record.cut_batch is True
    position = log_position(open_path(spec.checkpoint))
    assert (position.planned, position.committed) == (3, 2)


def test_a_checkpoint_of_another_query(made: Project, lenient: tuple[StreamSpec, ExitRecord]) -> None:
    """The job's aggregation changed its key: its state no longer fits. A restart cannot cure that."""
    made.publish()
    changed = COUNTS.replace('"10 seconds"), "key"', '"10 seconds"), "note"')
    assert changed != COUNTS
    other = made.spec("other", changed, checkpoint=lenient[0].checkpoint)
    record = end_of(made, other)
    assert (record.kind, record.curable) == (ExitKind.FAILED, False)
    assert record.error_class
    assert record.error_class.startswith("STATE_STORE_KEY_SCHEMA")
    assert "new checkpoint path" in record.next_step
    assert len(record.message) <= 600


def test_a_batch_that_hangs_is_ended_after_the_deadline(made: Project) -> None:
    spec = made.spec(
        "hangs",
        """
        import time


        def each(frame, batch_id):
            time.sleep(600)


        def build(spark, spec):
            lines = spark.readStream.format("text").load(spec.source.path)
            return lines.writeStream.foreachBatch(each)
        """,
    )
    driver_id = made.start(spec)
    until("the batch", lambda: (Path(spec.checkpoint) / "offsets" / "0").exists())
    seen = made.fleet.stop("hangs", requested_by="ann", reason="stuck", batch_deadline=1, term_deadline=20)
    assert seen is not None
    assert seen.exit is not None
    assert (seen.exit.kind, seen.exit.signal, seen.exit.cut_batch) == (ExitKind.KILLED, signal.SIGTERM, True)
    assert "ann (stuck)" in seen.exit.message
    sent = [event.detail["signal"] for event in made.store.drivers.events(driver_id) if event.kind == "signal_sent"]
    assert sent == ["SIGTERM"]
    until("nothing left", lambda: not made.living())


SCRIPT = """
import sys

from pyspark.sql import SparkSession

spark = SparkSession.builder.appName("plain").getOrCreate()
words = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(sys.argv[1])
query = (
    words.groupBy("value").count()
    .writeStream.outputMode("complete").format("memory").queryName("words")
    .option("checkpointLocation", sys.argv[2])
    .start()
)
{ending}
"""


def script(made: Project, name: str, ending: str, checkpoint: str | None = None) -> StreamSpec:
    spec = made.spec(name, SCRIPT.format(ending=ending), source=SourceSpec(), sink=SinkSpec())
    return replace(spec, args=(str(made.input), checkpoint or spec.checkpoint))


@pytest.mark.full  # in the first tier test_word_count runs a script that waits
def test_a_plain_script_that_waits_for_its_query_is_supervised(made: Project) -> None:
    spec = script(made, "waiting", "query.awaitTermination()\nprint('the script went on to its end')")
    driver_id = made.start(spec)
    made.await_batches(spec, 4)
    until("its progress", lambda: len([b for b in made.store.batches.window("waiting") if b.progress]) >= 4)
    record = made.store.drivers.get(driver_id)
    assert record is not None
    assert record.query_id == log_position(open_path(spec.checkpoint)).query_id
    seen = made.fleet.stop("waiting", requested_by="ann", reason="deploy")
    assert seen is not None
    assert seen.exit is not None
    assert (seen.exit.kind, seen.exit.cut_batch) == (ExitKind.STOPPED, False)
    assert "the script went on to its end" in made.log(driver_id)


def test_a_plain_script_whose_main_ends_is_kept_alive_while_its_query_runs(made: Project) -> None:
    spec = script(made, "ending", "print('main is over')")
    driver_id = made.start(spec)
    made.await_batches(spec, 2)
    until("main's end", lambda: "main is over" in made.log(driver_id))
    assert made.fleet.observe(driver_id).alive
    seen = made.fleet.stop("ending", requested_by="ann", reason="deploy")
    assert seen is not None
    assert seen.exit is not None
    assert seen.exit.kind is ExitKind.STOPPED


@pytest.mark.full  # in the first tier test_word_count has a script on another checkpoint
def test_a_script_on_an_undeclared_checkpoint_never_runs_a_batch(made: Project) -> None:
    elsewhere = made.data / "checkpoints" / "elsewhere"
    spec = script(made, "redirected", "query.awaitTermination()", checkpoint=str(elsewhere))
    record = end_of(made, spec)
    assert (record.kind, record.error_class, record.curable) == (ExitKind.FAILED, "JobError", False)
    assert str(elsewhere) in record.message
    assert spec.checkpoint in record.message
    assert not list((elsewhere / "offsets").glob("[0-9]*"))
    driver = made.store.drivers.latest("redirected")
    assert driver is not None
    assert (driver.started_at, driver.query_id) == (None, None), "a refused query never ran"
    assert made.store.queries.of("redirected") == ()


HIDING = """
import sys

from pyspark.sql import SparkSession

spark = SparkSession.builder.appName("hiding").getOrCreate()
rows = spark.readStream.schema("n INT").option("mode", "FAILFAST").json(sys.argv[1])
written = rows.writeStream.foreachBatch(lambda frame, batch: frame.count()).option("checkpointLocation", sys.argv[2])
try:
    written.start().awaitTermination()
except Exception:
    sys.exit(1)
"""


def test_script_that_exits_with_a_status_is_judged_by_its_hidden_error(made: Project) -> None:
    """Its own words say nothing: the chain of the query's exception does, through foreachBatch and the status."""
    broken = made.data / "broken"
    broken.mkdir()
    (broken / "0.json").write_text("{no record\n")
    spec = made.spec("hiding", HIDING, source=SourceSpec())
    record = end_of(made, replace(spec, args=(str(broken), spec.checkpoint)))
    assert (record.kind, record.curable) == (ExitKind.FAILED, False), record
    assert "An error occurred while calling" not in record.message
    assert "JsonParseException" in record.message
    assert record.next_step.startswith("declare `quarantine:`")


def test_a_stop_that_comes_while_the_driver_starts_up_is_obeyed_before_its_first_batch(made: Project) -> None:
    spec = made.spec("early", COUNTS)
    driver_id = made.start(spec)
    seen = made.fleet.stop("early", requested_by="ann", reason="wrong one", batch_deadline=120)
    assert seen is not None
    assert seen.exit is not None
    assert (seen.exit.kind, seen.exit.message) == (ExitKind.STOPPED, "stopped by ann: wrong one")
    assert seen.record.driver_id == driver_id
    assert made.committed(spec) == 0


@pytest.mark.full  # in the first tier test_event_windows has such a row
def test_rows_that_do_not_fit_end_a_stream_without_a_quarantine(made: Project) -> None:
    """It fails on them and never drops them."""
    strict = made.spec("strict", COUNTS, quarantine=None, trigger=TriggerSpec(available_now=True))
    record = end_of(made, strict)
    assert (record.kind, record.curable) == (ExitKind.FAILED, False)
    assert "FAILED_READ_FILE" in f"{record.error_class} {record.message}"
    assert "quarantine" in record.next_step


def test_all_input_of_an_available_now_stream_is_processed_and_then_it_ends(
    lenient: tuple[StreamSpec, ExitRecord],
) -> None:
    spec, record = lenient
    assert (record.kind, record.cut_batch) == (ExitKind.COMPLETED, False)
    assert record.message == "the query ended by itself: all its input is processed"
    kept = list(Path(spec.quarantine or "").glob("query=*/batch=*/*.json"))
    rows = [json.loads(line) for path in kept for line in path.read_text().splitlines()]
    told = sorted((row["number"], row["reason"]) for row in rows)
    assert told == [(21, "not a JSON object"), (22, f"has note of {2**20 + 1} bytes, more than {2**20}")]
    assert {Path(row["file"]).name for row in rows} == {f"{SPOILED:06d}.json"}
    assert [row["raw"] for row in rows if "raw" in row] == ["{broken"]
