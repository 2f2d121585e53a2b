"""A stream in real-time mode: what its file must say, and how each mistake is answered."""

import pytest

from streamwarden.config.stored_spec import spec_from_dict, spec_to_dict
from support.streams.projects import Project

STREAM = """
    name: live
    job: spark_jobs/job.py
    source: {kind: kafka, connection: c, topic: t}
    sink: {kind: kafka, connection: c, topic: u, key: [id], mode: update}
    checkpoint: checkpoints/live
    trigger: {real_time: 10 seconds}
    state: {shuffle_partitions: 2}
    spark: {master: "local[4]"}
"""


def written(project: Project, old: str = "", new: str = "") -> str:
    """The error of the stream with `old` replaced."""
    assert old in STREAM
    return str(project.error(project.write("config/streams/live.yaml", STREAM.replace(old, new))))


def test_a_batch_lasts_as_long_as_the_file_says_and_nothing_starts_one(project: Project) -> None:
    spec = project.load(project.write("config/streams/live.yaml", STREAM))
    assert (spec.trigger.real_time, spec.trigger.processing_time, spec.trigger.interval) == (10.0, None, 10.0)
    assert spec_from_dict(spec_to_dict(spec)) == spec


@pytest.mark.parametrize(
    ("old", "new", "key", "message"),
    [
        ("real_time: 10 seconds", "real_time: 4 s", "trigger.real_time", "at least 5 s"),
        (
            "{real_time: 10 seconds}",
            "{real_time: 10s, processing_time: 1s}",
            "processing_time",
            "one of processing_time",
        ),
        (
            "{real_time: 10 seconds}",
            "{real_time: 10s, processing_time: 2s}",  # the default, said
            "processing_time",
            "one of processing_time",
        ),
        ("{real_time: 10 seconds}", "{real_time: 10s, available_now: true}", "available_now", "one of available_now"),
        ("source: {kind: kafka, connection: c, topic: t}", "source: {path: in}", "source.kind", "kafka"),
        (
            "topic: t}",
            "topic: t, max_offsets_per_trigger: 9}",
            "source.max_offsets_per_trigger",
            "all records that arrive",
        ),
        ("{kind: kafka, connection: c, topic: u, key: [id], mode: update}", "{path: o}", "sink.kind", "as a whole"),
        ("mode: update", "mode: append", "sink.mode", "update, which is the only mode"),
        ("{shuffle_partitions: 2}", "{backend: hdfs}", "state.backend", "checkpoint format 2"),
        ("{shuffle_partitions: 2}", "{shuffle_partitions: 4}", "spark.master", "at least local[5]"),
        ('"local[4]"', "local", "spark.master", "at least local[3]"),
        ("real_time: 10 seconds", "real_time: 5m", "stop.batch_deadline", "more than `trigger.real_time`, 300 s"),
    ],
)
def test_what_real_time_mode_cannot_do_is_reported_with_its_key(
    project: Project, old: str, new: str, key: str, message: str
) -> None:
    error = written(project, old, new)
    assert key in error
    assert message in error


@pytest.mark.parametrize("master", ["local[*]", "spark://one:7077", "local[3]"])
def test_a_master_that_may_have_enough_tasks_is_accepted(project: Project, master: str) -> None:
    spec = project.load(project.write("config/streams/live.yaml", STREAM.replace("local[4]", master)))
    assert (spec.spark.master, spec.trigger.real_time) == (master, 10.0)


def test_the_quarantine_needs_a_task_of_its_own(project: Project) -> None:
    text = STREAM.replace("local[4]", "local[3]")
    assert project.load(project.write("config/streams/live.yaml", text)).quarantine is None
    error = str(project.error(project.write("config/streams/live.yaml", f"{text}    quarantine: quarantine/live\n")))
    assert (
        "at least local[4]: 2 tasks for the state, one for each partition of the topic, and one for the quar" in error
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("frame.groupBy('id').transformWithState(None, '', 'Update', 'None')", "groupBy().agg()"),
        ("frame.withWatermark('t', '1 h').dropDuplicatesWithinWatermark(['id'])", "dropDuplicates with the event time"),
        ("frame.groupBy(session_window('t', '5 m')).count()", "windows of fixed length"),
        ("frame.writeStream.foreachBatch(print)", "return the DataFrame"),
    ],
)
def test_job_with_a_feature_that_the_mode_lacks_is_refused_with_its_line(
    project: Project, line: str, message: str
) -> None:
    project.write("spark_jobs/job.py", f"def build(spark, spec):\n    return {line}\n")
    error = written(project)
    assert "in line 2 of job.py" in error
    assert message in error


def test_in_micro_batches_the_same_job_is_accepted(project: Project) -> None:
    project.write("spark_jobs/job.py", "def build(spark, spec):\n    return frame.groupBy('id').transformWithState()\n")
    spec = project.load(project.write("config/streams/live.yaml", STREAM.replace("real_time", "processing_time")))
    assert (spec.trigger.real_time, spec.trigger.processing_time) == (None, 10.0)
