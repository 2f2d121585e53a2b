"""What is read from a job's text: its stateful operators and what bounds them. No job is run."""

import textwrap

import pytest

from streamwarden.lint.facts import Bound, Kind
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.stream import OutputMode, StateSpec
from support.lint import built, job, spec

MARKED = 'events.withWatermark("at", "1 hour")'


@pytest.mark.parametrize(
    ("result", "kind", "bound"),
    [
        ('events.dropDuplicates(["id"])', Kind.DEDUPLICATION, Bound.NONE),
        (f'{MARKED}.dropDuplicates(["id"])', Kind.DEDUPLICATION, Bound.NONE),
        (f'{MARKED}.dropDuplicates(["id", "at"])', Kind.DEDUPLICATION, Bound.WATERMARK),
        (f'{MARKED}.dropDuplicates(subset=["id", "at"])', Kind.DEDUPLICATION, Bound.WATERMARK),
        (f'{MARKED}.dropDuplicatesWithinWatermark(["id"])', Kind.DEDUPLICATION, Bound.WATERMARK),
        ("events.distinct()", Kind.DEDUPLICATION, Bound.NONE),
        ('events.groupBy("id").count()', Kind.AGGREGATION, Bound.NONE),
        (f'{MARKED}.groupBy("id").count()', Kind.AGGREGATION, Bound.NONE),
        (f'{MARKED}.groupBy(window("at", "5 minutes"), "id").count()', Kind.AGGREGATION, Bound.WATERMARK),
        (f'{MARKED}.groupBy(window(col("at"), "5 minutes"), "id").agg(x)', Kind.AGGREGATION, Bound.WATERMARK),
        (f'{MARKED}.groupBy(session_window("at", "1 hour"), "id").agg(x)', Kind.AGGREGATION, Bound.WATERMARK),
        (f'{MARKED}.groupBy("at").count()', Kind.AGGREGATION, Bound.WATERMARK),
        (f'{MARKED}.select(col("at").alias("t"), "id").groupBy("t").count()', Kind.AGGREGATION, Bound.WATERMARK),
        (f'{MARKED}.selectExpr("at AS t", "id").groupBy("t").count()', Kind.AGGREGATION, Bound.WATERMARK),
        (f'{MARKED}.withColumnRenamed("at", "t").groupBy("t").count()', Kind.AGGREGATION, Bound.WATERMARK),
        ("events.groupBy().count()", Kind.AGGREGATION, Bound.ONE_ROW),
        ('events.groupBy("id").applyInPandasWithState(f, "o", "s", "update", GroupStateTimeout.NoTimeout)',
         Kind.GROUP_STATE, Bound.NONE),
        ('events.groupBy("id").applyInPandasWithState(f, "o", "s", "update", GroupStateTimeout.ProcessingTimeTimeout)',
         Kind.GROUP_STATE, Bound.TIMEOUT),
        ("events.join(events, 'id')", Kind.JOIN, Bound.NONE),
        (f"{MARKED}.join({MARKED}, 'id')", Kind.JOIN, Bound.NONE),
        (f"{MARKED}.join({MARKED}, ['id', 'at'], 'left')", Kind.JOIN, Bound.WATERMARK),
    ],
)  # fmt: skip
def test_an_operator_is_found_with_what_bounds_it(result: str, kind: Kind, bound: Bound) -> None:
    read = built(result)
    assert read.followed
    assert [(each.kind, each.bound) for each in read.operators] == [(kind, bound)]


@pytest.mark.parametrize(
    "result",
    [
        'events.where("id > 1").select("id")',
        'spark.read.parquet("x").groupBy("id").count()',
        'events.join(spark.read.parquet("x").dropDuplicates(["id"]), "id")',
        'events.union(events).withColumn("x", col("id"))',
    ],
)
def test_batch_frames_and_stateless_steps_keep_no_state(result: str) -> None:
    read = built(result)
    assert (read.followed, read.operators) == (True, ())


def test_in_output_mode_complete_no_watermark_helps() -> None:
    complete = spec(sink=ParquetSink(path="/out", mode=OutputMode.COMPLETE))
    (operator,) = built(f'{MARKED}.groupBy(window("at", "5 minutes")).count()', complete).operators
    assert operator.bound is Bound.NONE


def test_functions_variables_and_modules_beside_the_job_are_followed() -> None:
    read = job(
        """
        from helpers import marked
        COLUMN = "at"

        def build(spark, spec):
            events = spark.readStream.schema("x").json("in")
            return events.transform(marked).transform(lambda frame: counted(frame))

        def counted(frame):
            key = COLUMN
            return frame.groupBy(key).count()
        """,
        helpers='def marked(frame):\n    return frame.withWatermark("at", "1 hour")\n',
    )
    assert read.followed
    assert [each.bound for each in read.operators] == [Bound.WATERMARK]


def test_what_cannot_be_followed_is_said_and_not_guessed() -> None:
    """A frame of a foreign function: it may have set a watermark."""
    read = job("from elsewhere import load\n\ndef build(spark, spec):\n    return load(spark).dropDuplicates(['id'])\n")
    assert not read.followed
    assert [each.bound for each in read.operators] == [Bound.UNKNOWN]


@pytest.mark.parametrize("text", ["def build(", "", "def build(spark, spec):\n    return build(spark, spec)\n"])
def test_a_job_that_says_nothing_raises_nothing(text: str) -> None:
    read = job(text)
    assert not read.followed
    assert read.operators == ()


PROCESSOR = """
    class Counts(StatefulProcessor):
        def __init__(self, ttl=None):
            self._ttl = ttl

        def init(self, handle):
            self._handle = handle
            self._count = handle.getValueState("count", "n INT"{ttl})

        def handleInputRows(self, key, rows, timerValues):
            {rows}

        def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
            {expired}

    def build(spark, spec):
        events = spark.readStream.schema("x").json("in")
        return events.groupBy("id").transformWithState(Counts({given}), "o STRING", "Append", "ProcessingTime")
"""


@pytest.mark.parametrize(
    ("parts", "bound"),
    [
        ({}, Bound.NONE),
        ({"ttl": ", 60000"}, Bound.TTL),
        ({"ttl": ", ttlDurationMs=60000"}, Bound.TTL),
        ({"ttl": ", ttlDurationMs=0"}, Bound.NONE),
        ({"ttl": ", self._ttl"}, Bound.NONE),
        ({"ttl": ", self._ttl", "given": "60000"}, Bound.TTL),
        ({"ttl": ", self._ttl", "given": "spec.state.ttl"}, Bound.NONE),
        ({"rows": "self._count.clear()"}, Bound.NONE),
        ({"rows": "self._handle.registerTimer(1)"}, Bound.UNCLEARED),
        ({"rows": "self._handle.registerTimer(1)", "expired": "self._count.clear()"}, Bound.TIMERS),
    ],
)
def test_a_processor_is_bounded_by_its_ttl_or_by_timers_that_clear(parts: dict[str, str], bound: Bound) -> None:
    text = PROCESSOR.format(**{"ttl": "", "rows": "pass", "expired": "pass", "given": "", **parts})
    (operator,) = job(text).operators
    assert (operator.kind, operator.bound) == (Kind.PROCESSOR, bound)


def test_a_ttl_that_the_stream_declares_counts() -> None:
    text = PROCESSOR.format(ttl=", self._ttl", rows="pass", expired="pass", given="spec.state.ttl")
    (operator,) = job(text, spec(state=StateSpec(ttl=60.0))).operators
    assert operator.bound is Bound.TTL


SCRIPT = """
    spark = SparkSession.builder.getOrCreate()
    frame = spark.readStream.format("kafka").load()

    def write(rows, batch_id):
        {write}

    frame.writeStream{sink}.start().awaitTermination()
"""


@pytest.mark.parametrize(
    ("sink", "write", "format", "uses"),
    [
        ('.format("kafka").option("topic", "x")', "pass", "kafka", None),
        (".foreachBatch(write)", "rows.write.jdbc(url, 'table')", "foreachBatch", False),
        (".foreachBatch(write)", "merge(rows, batch_id)", "foreachBatch", True),
        (".foreachBatch(elsewhere)", "pass", "foreachBatch", None),
        (".format(name)", "pass", None, None),
    ],
)
def test_a_scripts_sink_is_found(sink: str, write: str, format: str | None, uses: bool | None) -> None:
    read = job(SCRIPT.format(sink=sink, write=write))
    assert read.followed
    assert [(each.format, each.uses_batch_id) for each in read.sinks] == [(format, uses)]


START = "rows.writeStream.format('parquet').start()"
MAIN = f"""
    def main():
        rows = spark.readStream.json("in")
        {START}
        {START}

    if __name__ == "__main__":
        main()
"""


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("def build(spark, spec):\n    return spark.readStream.json('in')", 1),
        (f"rows = spark.readStream.json('in')\n{START}", 1),
        (f"rows = spark.readStream.json('in')\n{START}\nrows.writeStream.toTable('t')", 2),
        (textwrap.dedent(MAIN), 2),
        (f"rows = spark.readStream.json('in')\nfor name in ['a', 'b', 'c']:\n    {START}", 3),
        (f"rows = spark.readStream.json('in')\nfor name in topics():\n    {START}", None),
        (f"rows = spark.readStream.json('in')\nwhile True:\n    {START}", None),
        (f"rows = spark.readStream.json('in')\nif x:\n    {START}\nelse:\n    {START}", 1),
        (f"rows = spark.readStream.json('in')\nif x:\n    {START}", None),
        (f"def run(rows):\n    {START}\nfor each in (1, 2):\n    run(spark.readStream.json('in'))", 2),
        ("import helper\nhelper.run_all(spark)", None),
        ("rows = (", None),
    ],
)
def test_how_many_queries_a_job_starts(text: str, count: int | None) -> None:
    assert job(text).queries == count


ONE = f"""
spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.json('in')
def go():
    {START}
class Job:
    def __init__(self, spark):
        self.spark = spark
    def run(self):
        {START}
    def name(self):
        return "x"
{{}}
{START}
"""


@pytest.mark.parametrize(
    "line",
    [
        "lib.audit(spark)",
        "audit(rows)",
        "audit(sinks=[rows.writeStream])",
        "threading.Thread(target=go).start()",
        "threading.Thread(target=lib.go).start()",
        "pool.submit(go)",
        "retry(lambda: go())",
        "Job(spark).run()",
        "Job(spark).inherited()",
        "rows.transform(lib.audit)",
        "started = [each.writeStream.start() for each in frames()]",
        f"try:\n    pass\nexcept ValueError:\n    {START}",
        f"match mode:\n    case 'x':\n        {START}",
    ],
)
def test_code_that_is_not_in_sight_may_start_queries_too(line: str) -> None:
    assert job(ONE.format(line)).queries is None


@pytest.mark.parametrize(
    "line",
    [
        "print(rows, spark)",
        "from pyspark.sql import functions as f\nother = rows.join(f.broadcast(rows))",
        "import pyspark.sql.functions\npyspark.sql.functions.broadcast(rows)",
        "atexit.register(lambda: log('end'))",
        "spark.conf.set('a', 'b')",
        "Job(spark).name()",
        "settings = yaml.safe_load(text)",
        "try:\n    settings()\nexcept ValueError:\n    log('none')",
    ],
)
def test_what_cannot_start_a_query_leaves_the_count_as_it_is(line: str) -> None:
    assert job(ONE.format(line)).queries == 1


def test_a_comprehension_over_names_starts_a_query_for_each() -> None:
    assert job("[spark.readStream.json(each).writeStream.start() for each in ('a', 'b')]").queries == 2


def test_a_job_that_is_no_python_is_told_from_one_that_could_not_be_followed() -> None:
    assert not job("rows = (").parsed
    assert job("helper.run_all(spark)").parsed
