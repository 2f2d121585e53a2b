"""What the names in a job's text show: stateful methods, sinks, processors and the number of queries. No job is run."""

import textwrap

import pytest

from streamwarden.lint.batch_id import appends
from streamwarden.lint.facts import Bound, OperatorKind
from streamwarden.lint.job_reader import read_job
from support.streams.lint import built, job


@pytest.mark.parametrize(
    ("result", "kind"),
    [
        ('events.dropDuplicates(["id"])', OperatorKind.DEDUPLICATION),
        ('events.dropDuplicatesWithinWatermark(["id"])', OperatorKind.DEDUPLICATION),
        ("events.distinct()", OperatorKind.DEDUPLICATION),
        ('events.groupBy("id").count()', OperatorKind.AGGREGATION),
        ('events.groupBy("id").applyInPandasWithState(f, "o", "s", "update", "NoTimeout")', OperatorKind.GROUP_STATE),
        ('events.groupBy("id").transformWithState(f(), "o", "Append", "None")', OperatorKind.PROCESSOR),
    ],
)
def test_a_stateful_method_is_found_and_its_bound_is_unknown(result: str, kind: OperatorKind) -> None:
    """Whether there is a watermark above it depends on the data flow, also in a case that looks simple."""
    assert [(each.kind, each.bound) for each in built(result).operators] == [(kind, Bound.UNKNOWN)]


def test_a_text_without_such_a_method_shows_no_operator() -> None:
    assert built('events.where("id > 1").select("id")').operators == ()


@pytest.mark.parametrize("text", ["def build(", "x = " + "(" * 300 + ")" * 300, "x = '\0'"])
def test_a_job_that_cannot_be_parsed_raises_nothing(text: str) -> None:
    read = job(text)
    assert (read.parsed, read.operators, read.queries) == (False, (), None)
    assert "cannot be parsed" in read.problem


def test_the_problem_of_a_text_that_is_not_python_names_the_file_and_the_line() -> None:
    assert read_job("/p/jobs/words.py", "x = 1\ny = (1").problem.endswith("'(' was never closed (words.py, line 2)")


def test_an_expression_of_hundreds_of_terms_is_python_and_its_queries_are_not_counted() -> None:
    read = job(f"x = {' + '.join(['1'] * 900)}\n{START}")
    assert (read.parsed, read.queries, len(read.sinks)) == (True, None, 1)


PROCESSOR = """
    class Counts(StatefulProcessor):
        def init(self, handle):
            self._handle = handle
            self._count = handle.getValueState("count", "n INT"{ttl})

        def handleInputRows(self, key, rows, timerValues):
            {rows}

        def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
            {expired}

    def build(spark, spec):
        events = spark.readStream.schema("x").json("in")
        return events.groupBy("id").transformWithState(Counts(), "o STRING", "Append", "ProcessingTime")
"""


@pytest.mark.parametrize(
    ("parts", "bound"),
    [
        ({}, Bound.NONE),
        ({"ttl": ", 60000"}, Bound.TTL),
        ({"ttl": ", ttlDurationMs=60000"}, Bound.TTL),
        ({"ttl": ", ttlDurationMs=0"}, Bound.NONE),
        ({"ttl": ", self._ttl"}, Bound.UNKNOWN),
        ({"ttl": ", self._ttl", "rows": "self._handle.registerTimer(1); self._count.clear()"}, Bound.TIMERS),
        ({"rows": "self._count.clear()"}, Bound.NONE),
        ({"rows": "self._handle.registerTimer(1)"}, Bound.UNCLEARED),
        ({"rows": "self._handle.registerTimer(1)", "expired": "self._count.clear()"}, Bound.TIMERS),
    ],
)
def test_a_processor_is_bounded_by_its_ttl_or_by_timers_that_clear(parts: dict[str, str], bound: Bound) -> None:
    (operator,) = job(PROCESSOR.format(**{"ttl": "", "rows": "pass", "expired": "pass", **parts})).operators
    assert (operator.kind, operator.bound) == (OperatorKind.PROCESSOR, bound)


def test_of_two_processors_neither_is_guessed() -> None:
    text = textwrap.dedent(PROCESSOR.format(ttl=", 60000", rows="pass", expired="pass"))
    (operator,) = job(text + text.split("def build")[0].replace("Counts", "Others")).operators
    assert operator.bound is Bound.UNKNOWN


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
        ("", "pass", "parquet", None),
        ('.format("kafka").option("topic", "x")', "pass", "kafka", None),
        (".foreachBatch(write)", "rows.write.jdbc(url, 'table')", "foreachBatch", False),
        (".foreachBatch(write)", "merge(rows, batch_id)", "foreachBatch", True),
        (".foreachBatch(elsewhere)", "pass", "foreachBatch", None),
        (".foreach(row)", "pass", "foreach", None),
        (".format(name)", "pass", None, None),
    ],
)
def test_a_scripts_sink_is_found(sink: str, write: str, format: str | None, uses: bool | None) -> None:
    read = job(SCRIPT.format(sink=sink, write=write))
    assert [(each.format, each.uses_batch_id) for each in read.sinks] == [(format, uses)]
    assert read.queries == 1


@pytest.mark.parametrize(
    ("write", "uses"),
    [
        ('print(batch_id); rows.write.mode("append").parquet("out")', False),
        ('log.info("batch %s", batch_id); rows.write.jdbc(url, "t")', False),
        ('name = f"batch {batch_id}"; logger.info(name); rows.write.save("out")', False),
        ('sys.stdout.write(str(batch_id)); rows.write.save("out")', False),
        ('seen.append(batch_id); rows.write.save("out")', False),
        ('spark.sparkContext.setJobDescription(f"{batch_id}"); rows.write.save("out")', False),
        ("rows.write.save('out') if rows.count() else print(batch_id)", False),
        ("said(rows, batch_id)", False),
        ('rows.write.mode("overwrite").parquet(f"out/{batch_id}")', True),
        ('path = f"out/{batch_id}"; rows.write.mode("overwrite").parquet(path)', True),
        ('rows.withColumn("batch", F.lit(batch_id)).write.mode("append").save("out")', True),
        ('named = rows.withColumn("b", F.lit(batch_id)); named.write.save("out")', True),
        ('rows.write.option("txnVersion", batch_id).option("txnAppId", "a").format("delta").save("out")', True),
        ('rows.withColumn("b", F.lit(batch_id)).createOrReplaceTempView("v"); spark.sql("MERGE INTO t USING v")', True),
        ('cursor.execute("INSERT INTO done VALUES (%s)", (batch_id,)); rows.write.save("out")', True),
        ("rows.foreachPartition(lambda part: send(part, batch_id))", True),
        ("stored(rows, batch_id)", True),
        ("store.write_batch(rows, key=batch_id)", True),
        ("merge(rows, batch_id)", True),
        ('transaction = begin(batch_id); rows.write.save("out")', None),
    ],
)
def test_a_mention_of_the_batch_id_is_no_write_that_depends_on_it(write: str, uses: bool | None) -> None:
    helpers = """
    def said(rows, number):
        print(number)
        rows.write.save("out")

    def stored(rows, number):
        rows.write.save(f"out/{number}")
"""
    (sink,) = job(
        helpers + SCRIPT.format(sink=".foreachBatch(write)", write=write.replace("{{", "{").replace("}}", "}"))
    ).sinks
    assert sink.uses_batch_id is uses


def test_the_function_is_found_by_its_first_line_as_python_counts_it() -> None:
    load = "@kept\n@logged(1)\ndef load(rows, number):\n    rows.write.save('out')\n"
    text = f"{load}\nf, g = lambda r, n: r, lambda r, n: n\n"
    assert appends(text, 1)
    assert not appends(text, 3)
    assert not appends(text, 6), "two functions begin here"
    assert not appends("def load(", 1)
    method = "class Sink:\n    def write(self, rows, number):\n        rows.write.save({})\n"
    assert appends(method.format("'out'"), 2, bound=1)
    assert not appends(method.format("f'out/{number}'"), 2, bound=1)


def test_a_guard_by_the_batch_id_counts_and_one_of_a_print_does_not() -> None:
    text = """
    def write(rows, batch_id):
        if {test}:
            {then}
        rows.write.mode("append").save("out")

    spark.readStream.json("in").writeStream.foreachBatch(write).start()
"""
    guards = {"batch_id in done(spark)": "return", "batch_id % 100 == 0": "print('hundred')"}
    read = [job(text.format(test=test, then=then)).sinks[0].uses_batch_id for test, then in guards.items()]
    assert read == [True, False]


def test_a_writer_that_other_code_completes_has_an_unknown_format() -> None:
    read = job("writer = rows.writeStream.option('a', 'b')\nwriter.format('kafka').start()")
    assert [each.format for each in read.sinks] == [None]


START = "rows.writeStream.format('parquet').start()"
MAIN = f"""
def main(spark):
    rows = spark.readStream.json("in")
    first = {START}
    return {START}

if __name__ == "__main__":
    main(SparkSession.builder.getOrCreate())
"""


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("def build(spark, spec):\n    return spark.readStream.json('in')", 1),
        (f"{START}\n{START}", 2),
        ("rows.writeStream.toTable('t')", 1),
        ("writer = rows.writeStream.foreachBatch(f)\nwriter.start().awaitTermination()", 1),
        (f"try:\n    {START}\nfinally:\n    spark.stop()", 1),
        (MAIN, 2),
        (f"from pyspark.sql import functions as f\nimport yaml_like_settings\n{START}", 1),
        ("x = 1", None),
        (f"for name in ['a', 'b', 'c']:\n    {START}", None),
        (f"while True:\n    {START}", None),
        (f"if x:\n    {START}", None),
        (f"if x:\n    {START}\nelse:\n    {START}", None),
        (f"if __name__ == '__main__':\n    x = 1\nelse:\n    {START}", None),
        (f"def run(rows):\n    {START}\nrun(a)\nrun(b)", None),
        ("rows = (", None),
    ],
)
def test_how_many_queries_a_job_starts(text: str, count: int | None) -> None:
    assert job(text).queries == count


ONE = f"""
import lib, threading
from lib import audit
rows = SparkSession.builder.getOrCreate().readStream.json('in')
def go():
    {START}
class Job:
    def run(self):
        {START}
class Inherited(lib.Job): ...
{{}}
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
        "Inherited(spark).run()",
        "rows.transform(lib.audit)",
        "from lib import *",
        "exec(text)",
        "writer.start()",
        "started = [each.writeStream.start() for each in frames()]",
        f"try:\n    pass\nexcept ValueError:\n    {START}",
        f"match mode:\n    case 'x':\n        {START}",
        f"mode and {START}",
    ],
)
def test_code_that_is_not_in_sight_or_not_certain_makes_the_number_unknown(line: str) -> None:
    assert job(f"{ONE.format(line)}\n{START}").queries is None


@pytest.mark.parametrize(
    "line",
    [
        "print(rows, spark)",
        "from pyspark.sql import functions as f\nother = rows.join(f.broadcast(rows))",
        "import pyspark.sql.functions\npyspark.sql.functions.broadcast(rows)",
        "import atexit\natexit.register(lambda: print('end'))",
        "spark.conf.set('a', 'b')",
        "def log(text):\n    print(text)\ntry:\n    log('a')\nexcept ValueError:\n    log('none')",
    ],
)
def test_what_cannot_start_a_query_leaves_the_number_as_it_is(line: str) -> None:
    assert job(f"{line}\n{START}").queries == 1
