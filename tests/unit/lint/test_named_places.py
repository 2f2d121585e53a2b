"""What a script names in constants: checkpoint, output, trigger and input. The script is parsed and never run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamwarden.lifecycle.script_queries import NamedInput, NamedQuery
from streamwarden.lint.job_reader import read_job
from streamwarden.lint.rules.contradiction import contradictions
from streamwarden.stream.spec import TriggerSpec
from support.streams.lint import JOB, job, spec

WORDS = """
    from pyspark.sql import SparkSession
    from pyspark.sql.functions import explode, split

    BASE = "checkpoints"
    spark = SparkSession.builder.getOrCreate()
    lines = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load("input/words")
    words = lines.select(explode(split(lines.value, " ")).alias("word"))
    query = (
        words.groupBy("word").count()
        .writeStream.outputMode("complete")
        .format("console")
        .queryName("words")
        .option("CheckpointLocation", f"{BASE}/words")
        .trigger(processingTime="10 seconds")
        .start()
    )
    query.awaitTermination()
"""


def test_a_word_count_as_one_would_submit_it() -> None:
    read = job(WORDS)
    assert read.named == (
        NamedQuery(
            name="words",
            checkpoint="checkpoints/words",
            format="console",
            trigger=TriggerSpec(processing_time=10.0),
            line=10,
        ),
    )
    assert read.inputs == (NamedInput(format="text", path="input/words", line=7),)
    assert read.queries == 1


@pytest.mark.parametrize(
    ("reader", "format"),
    [
        ('.format("rate").load()', "rate"),
        ('.load(format="socket")', "socket"),
        ('.option("multiLine", True).json("in")', "json"),
        ('.format("rate").json("in")', "json"),
        ('.json("in").join(other.format("rate"))', "json"),
        (".format(sys.argv[1]).load()", None),
        ('.table("orders")', None),
    ],
)
def test_the_format_of_a_source_is_its_method_or_a_constant(reader: str, format: str | None) -> None:
    (found,) = job(f"rows = spark.readStream{reader}\n").inputs
    assert found.format == format


@pytest.mark.parametrize(
    ("writer", "named"),
    [
        ('.start("out")', NamedQuery(path="out")),
        ('.start("out", "json", queryName="q")', NamedQuery(path="out", format="json", name="q")),
        ('.start(path="out", checkpointLocation="cp")', NamedQuery(path="out", checkpoint="cp")),
        ('.options(path="out", checkpointLocation="cp").start()', NamedQuery(path="out", checkpoint="cp")),
        ('.option("topic", "t").format("kafka").start()', NamedQuery(topic="t", format="kafka")),
        ('.toTable("t", checkpointLocation="cp")', NamedQuery(table="t", checkpoint="cp")),
        ('.option("path", "a").option("path", "b").start()', NamedQuery(path="b")),
        ('.option("path", "a").option("path", other()).start()', NamedQuery()),
        ('.option("path", "a" + "/b").start()', NamedQuery(path="a/b")),
        (".option('path', sys.argv[1]).start()", NamedQuery()),
        (".option('path', twice).start()", NamedQuery()),
        (".option(**options).start()", NamedQuery()),
        (".trigger(availableNow=True).start()", NamedQuery(trigger=TriggerSpec(available_now=True))),
        (".trigger(once=True).start()", NamedQuery(trigger=TriggerSpec(available_now=True))),
        (".trigger(realTime='5 seconds').start()", NamedQuery(trigger=TriggerSpec(real_time=5.0))),
        (".trigger(processingTime=each).start()", NamedQuery()),
        (".trigger(processingTime='1 minute 30 seconds').start()", NamedQuery()),
        (".trigger(continuous='1 second').start()", NamedQuery()),
    ],
)
def test_only_constants_are_known(writer: str, named: NamedQuery) -> None:
    (found,) = job(f"twice = 'a'\ntwice = 'b'\nframe.writeStream{writer}\n").named
    for name in ("name", "checkpoint", "format", "path", "topic", "table"):
        assert getattr(found, name) == getattr(named, name), name
    mine, other = found.trigger, named.trigger
    assert (mine and (mine.available_now, mine.real_time)) == (other and (other.available_now, other.real_time))


@pytest.mark.parametrize(
    ("reader", "path"),
    [
        ('.text("in")', "in"),
        ('.schema(S).json(path="in")', "in"),
        ('.option("path", "in").format("json").load()', "in"),
        ('.load("in", "json").writeStream.start("out")', "in"),
        ('.load("in").withColumn("file", lit("x")).text', "in"),
        (".load(sys.argv[1])", None),
    ],
)
def test_the_path_of_a_reader_is_not_that_of_a_writer_behind_it(reader: str, path: str | None) -> None:
    (found,) = job(f"rows = spark.readStream{reader}\n").inputs
    assert found.path == path


def test_a_topic_that_is_read() -> None:
    (found,) = job('rows = spark.readStream.format("kafka").option("subscribe", "clicks").load()\n').inputs
    assert found.topic == "clicks"


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("from streamwarden.spark.sources import read_rows\n", True),
        ("from streamwarden.spark import sources\nsources.read_rows(spark, spec, S)\n", True),
        ("import json\nfrom pyspark.sql import functions\n", False),
        ("from my_helpers import rows\n", None),
        ("from . import rows\n", None),
    ],
)
def test_whether_a_job_reads_its_rows_through_read_rows(text: str, reads: bool | None) -> None:
    assert job(text).reads_rows is reads


def test_a_sum_of_hundreds_of_terms_is_unknown() -> None:
    text = " + ".join(['"a"'] * 1200)
    assert [each.path for each in job(f"frame.writeStream.start({text})\n").named] in ([None], [])


TEXTS = st.text() | st.sampled_from(
    ["file://[", "s3a://b/../c", "//[", "9" * 400, "1 minute 30 seconds", "\0", "\ud800"]
)


@given(checkpoint=TEXTS, path=TEXTS, format=TEXTS, every=TEXTS, source=TEXTS)
def test_whatever_a_script_names_is_compared_without_an_error(
    checkpoint: str, path: str, format: str, every: str, source: str
) -> None:
    text = (
        f"rows = spark.readStream.json({source!r})\n"
        f"rows.writeStream.format({format!r}).option('checkpointLocation', {checkpoint!r})"
        f".trigger(processingTime={every!r}).start({path!r})\n"
    )
    found = contradictions(spec(data="/data", trigger=TriggerSpec(processing_time=7.0)), read_job(JOB, text))
    assert all(each.observed and each.next_step for each in found)
