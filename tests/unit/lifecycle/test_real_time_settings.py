"""What a driver in real-time mode is submitted with, and what a fork of its stream."""

from __future__ import annotations

from dataclasses import replace

from streamwarden.lifecycle.forks.places import Places
from streamwarden.lifecycle.submission import spark_conf
from streamwarden.services.forks.spec import BATCHES, batches_left, forked_spec, in_batches
from streamwarden.sinks.kafka.sink import KafkaSink
from streamwarden.sources.kafka.source import KafkaSource
from streamwarden.spark.sinks import trigger_options
from streamwarden.stream.spark import SparkSpec
from streamwarden.stream.spec import OutputMode, StreamSpec, TriggerSpec

FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
LIVE = StreamSpec(
    name="live",
    job="/p/jobs/live.py",
    checkpoint="/d/cp",
    source=KafkaSource(connection="c", topic="t"),
    sink=KafkaSink(connection="c", topic="u", key=("id",), mode=OutputMode.UPDATE),
    trigger=TriggerSpec(real_time=10.0),
)


def test_the_checkpoint_is_of_format_2_and_its_logs_are_written_at_once() -> None:
    conf = spark_conf(LIVE)
    assert conf[FORMAT] == "2"
    assert conf["spark.sql.streaming.realTimeMode.asyncProgressTrackingByDefault.enabled"] == "false"
    assert trigger_options(LIVE.trigger) == {"realTime": "10000 milliseconds"}


def test_in_micro_batches_spark_keeps_its_own_format() -> None:
    conf = spark_conf(replace(LIVE, trigger=TriggerSpec(processing_time=1.0)))
    assert not [key for key in conf if key == FORMAT or "realTime" in key]


def test_a_fork_ends_by_itself_so_it_runs_in_micro_batches_on_a_checkpoint_of_that_format() -> None:
    forked = forked_spec(LIVE, Places.under("/d/fork"))
    assert forked.trigger == TriggerSpec(processing_time=None, available_now=True)
    assert spark_conf(forked)[FORMAT] == "2"
    own = replace(LIVE, spark=SparkSpec(conf={FORMAT: "3"}))
    assert spark_conf(forked_spec(own, Places.under("/d/fork")))[FORMAT] == "3"


def test_a_fork_reads_in_batches_between_which_a_fault_has_room() -> None:
    forked = forked_spec(LIVE, Places.under("/d/fork"))
    assert batches_left(in_batches(LIVE, forked, 102_500), 102_500) == BATCHES
    assert in_batches(LIVE, forked, 0).source.max_offsets_per_trigger == 1
    own = replace(LIVE, trigger=TriggerSpec(processing_time=1.0))
    assert in_batches(own, forked, 102_500) is forked
