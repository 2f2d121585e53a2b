"""Each rule with what breaks it and what keeps it."""

from dataclasses import dataclass
from typing import Any

import pytest

from streamwarden.lint.facts import CheckpointSummary, DrillFacts, Facts, HistoryFacts, JobFacts, PlanFacts
from streamwarden.lint.finding import FactOrigin, Severity
from streamwarden.lint.linter import lint
from streamwarden.lint.rules import RULES
from streamwarden.sinks.kafka.sink import KafkaSink
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sinks.postgresql.sink import PostgresqlSink
from streamwarden.sources.files import FilesSource
from streamwarden.stream.spark import ExecutorsSpec, SparkSpec
from streamwarden.stream.spec import (
    Backend,
    Encoding,
    SinkSpec,
    StateSpec,
    StreamSpec,
    TriggerSpec,
)
from support.streams.lint import BOUNDED, built, facts, found, job, plan, spec

STORE = "spark.sql.streaming.stateStore"
DAY = 86400.0
NOW = 1_800_000_000.0
COUNTS = """
    def build(spark, spec):
        events = spark.readStream.schema("x").json("in")
        return events.groupBy("id").transformWithState(Counts(), "o STRING", "Append", "ProcessingTime")

    class Counts:
        def init(self, handle):
            self._count = handle.getValueState("count", "n INT")

        def handleInputRows(self, key, rows, timerValues):
            handle.registerTimer(1)

        def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
            {expired}
"""
DOCUMENTED = '"""Counts.\n\nState, by id: a count."""\n'
DUPLICATES = plan("~Deduplicate [id#0]")
TEXT = built('events.dropDuplicates(["id"])')
CLEARED, UNCLEARED = COUNTS.format(expired="self._count.clear()"), COUNTS.format(expired="return iter(())")


def conf(**settings: str) -> Facts:
    return facts(of=spec(conf={f"{STORE}.{key}": value for key, value in settings.items()}))


def stream(**changes: Any) -> Facts:
    return facts(of=spec(**changes))


def history(**changes: Any) -> HistoryFacts:
    return HistoryFacts(**{"now": NOW, "batches": 200, **changes})


def processor(text: str, **state: Any) -> Facts:
    node = "~TransformWithStateInPySpark transformWithStateUDF(id#0)#22, 1, [id#23], Append, ProcessingTime"
    return facts(of=spec(state=StateSpec(**state)), job=job(text), plan=plan(node))


def drilled(**changes: Any) -> tuple[DrillFacts, ...]:
    return (DrillFacts(**{"name": "kill", "schedule": "@daily", "last_at": NOW - DAY, "last_passed": True, **changes}),)


def one_query(writer: str) -> Facts:
    """A script with this writer of its only query."""
    return facts(job=job(f"rows = spark.readStream.json('/data/in')\nrows.writeStream{writer}\n"))


def several(count: int, of: StreamSpec | None = None) -> Facts:
    """A script that starts this number of queries."""
    text = "rows = spark.readStream.json('in')\n" + "rows.writeStream.format('parquet').start()\n" * count
    return facts(of=of, job=job(text))


def broken(text: str) -> Facts:
    return facts(job=job(text))


def on_executors(count: int) -> Any:
    executors = ExecutorsSpec(instances=count, memory=2**30)
    checkpoint = "hdfs://name/checkpoint"
    spark = SparkSpec(master="spark://m:7077", executors=executors)
    return spec(checkpoint=checkpoint, state=StateSpec(backend=Backend.HDFS), spark=spark)


def script(sink: str) -> Facts:
    of = spec(sink=SinkSpec())
    write = "def write(rows, batch):\n    rows.save()\n"
    return facts(of=of, job=job(f"frame = spark.readStream.json('in')\n{write}frame.writeStream{sink}.start()\n"))


def kept(operators: Any = (), **changes: Any) -> CheckpointSummary:
    return CheckpointSummary(
        **{"path": "/data/orders", "committed": 9, "state_bytes": 1, "operators": operators, **changes}
    )


READS = """
rows = spark.readStream{option}.json("/data/in")
more = spark.readStream.json("{path}")
"""
MARKED = READS + 'x.withWatermark("at", "1 hour")\n'


def with_options(**given: str) -> StreamSpec:
    return spec(source=FilesSource(path="/data/in", options=given))


def options(**given: str) -> Facts:
    """A stream that counts in windows, with these options of its source."""
    return facts(of=with_options(**given))


@dataclass(frozen=True)
class Case:
    rule: str
    bad: Facts
    good: Facts
    says: str
    severity: Severity = Severity.WARNING
    origin: FactOrigin = FactOrigin.DECLARATION


REMOTE = {"checkpoint": "s3://bucket/orders"}
CASES = {
    "deduplication without a watermark": Case(
        "SW101", facts(plan=DUPLICATES), facts(), "no watermark below", Severity.ERROR, FactOrigin.PLAN
    ),
    "bounded by what the declaration says": Case(
        "SW101",
        facts(plan=DUPLICATES, of=spec(state=StateSpec(bounded_by="the number of customers"))),
        facts(),
        "declared to be bounded by the number of customers",
        origin=FactOrigin.PLAN,
    ),
    "the plan wins over the text": Case(
        "SW101",
        facts(plan=DUPLICATES),
        facts(job=TEXT, plan=PlanFacts()),
        "no watermark below",
        Severity.ERROR,
        FactOrigin.PLAN,
    ),
    "the text alone does not show what bounds state": Case(
        "SW101",
        facts(job=TEXT, plan=None),
        facts(),
        "its text calls dropDuplicates (line 11)",
        Severity.UNKNOWN,
        FactOrigin.JOB,
    ),
    "a text without a stateful method is not a job without state": Case(
        "SW101",
        facts(job=built("events"), plan=None),
        facts(job=built("events"), plan=PlanFacts()),
        "its text calls no method that keeps state",
        Severity.UNKNOWN,
        FactOrigin.JOB,
    ),
    "an operator that the checkpoint lacks": Case(
        "SW101",
        facts(job=TEXT, plan=None, checkpoint=kept()),
        facts(job=built("events"), plan=None, checkpoint=kept()),
        "only the logical plan shows what bounds it",
        Severity.UNKNOWN,
        FactOrigin.JOB,
    ),
    "an unknown operator on the heap": Case(
        "SW102",
        facts(of=spec(state=StateSpec(backend=Backend.HDFS)), plan=None),
        facts(of=spec(state=StateSpec(backend=Backend.HDFS))),
        "is not known without `lint --plan`",
        Severity.UNKNOWN,
    ),
    "no batches without data, and an unknown bound": Case(
        "SW106",
        facts(of=spec(conf={"spark.sql.streaming.noDataMicroBatches.enabled": "false"}), plan=None),
        facts(of=spec(conf={"spark.sql.streaming.noDataMicroBatches.enabled": "false"}), plan=PlanFacts()),
        "whether state ends by event time is not known",
        Severity.UNKNOWN,
    ),
    "nothing is ever removed of state with an unknown bound": Case(
        "SW106",
        facts(history=history(rows_first=10, rows_last=1000), plan=None),
        facts(history=history(rows_first=10, rows_last=1000), plan=PlanFacts()),
        "none was removed",
        Severity.UNKNOWN,
        FactOrigin.HISTORY,
    ),
    "an unknown operator as UnsafeRow": Case(
        "SW108",
        facts(plan=None),
        facts(of=spec(state=StateSpec(encoding=Encoding.AVRO)), plan=None),
        "is not known without its plan",
        Severity.UNKNOWN,
    ),
    "a script that may have other sinks": Case(
        "SW109",
        facts(job=job("import elsewhere\nelsewhere.run(spark)\nrows.writeStream.format('parquet').start()\n")),
        script('.format("parquet")'),
        "it may have other sinks",
        Severity.UNKNOWN,
        FactOrigin.JOB,
    ),
    "nothing tells the operators": Case(
        "SW101",
        facts(job=JobFacts(path="x", problem="it cannot be read"), plan=None),
        facts(job=JobFacts(path="x", problem="it cannot be read"), plan=None, checkpoint=kept()),
        "is not known",
        Severity.UNKNOWN,
        FactOrigin.JOB,
    ),
    "a processor on the heap": Case(
        "SW102",
        processor(CLEARED, backend=Backend.HDFS),
        processor(CLEARED),
        "RocksDB only",
        Severity.ERROR,
        FactOrigin.JOB,
    ),
    "large state on the heap": Case(
        "SW102",
        facts(of=spec(state=StateSpec(backend=Backend.HDFS)), history=history(state_memory=10**9)),
        facts(of=spec(state=StateSpec(backend=Backend.HDFS)), history=history(state_memory=10**8)),
        "more than 25%",
        origin=FactOrigin.HISTORY,
    ),
    "large state on the heaps of executors": Case(
        "SW102",
        facts(of=on_executors(2), history=history(state_memory=2**30)),
        facts(of=on_executors(4), history=history(state_memory=2**30)),
        "a heap of 2.1 GB",
        origin=FactOrigin.HISTORY,
    ),
    "a local checkpoint under a cluster": Case(
        "SW102",
        stream(spark=SparkSpec(master="yarn")),
        stream(spark=SparkSpec(master="yarn"), **REMOTE),
        "one that all hosts mount serves",
    ),
    "a snapshot to remote storage with each commit": Case(
        "SW102", stream(state=StateSpec(changelog=False), **REMOTE), stream(**REMOTE), "uploads a snapshot"
    ),
    "a large snapshot with each commit": Case(
        "SW102",
        facts(of=spec(state=StateSpec(changelog=False)), checkpoint=kept(state_bytes=2 * 10**8)),
        facts(of=spec(state=StateSpec(changelog=False)), checkpoint=kept(state_bytes=10**7)),
        "writes a snapshot",
        origin=FactOrigin.CHECKPOINT,
    ),
    "native memory without a limit": Case(
        "SW102",
        conf(**{"rocksdb.boundedMemoryUsage": "false"}),
        conf(**{"rocksdb.boundedMemoryUsage": "true"}),
        "without a limit",
    ),
    "snapshots too seldom": Case(
        "SW103", conf(minDeltasForSnapshot="60"), conf(minDeltasForSnapshot="50"), "after 60 batches"
    ),
    "snapshots uploaded too late": Case(
        "SW103", conf(maintenanceInterval="120s"), conf(maintenanceInterval="60000"), "every 2m"
    ),
    "no trigger": Case(
        "SW103",
        stream(trigger=TriggerSpec(processing_time=0.0)),
        stream(trigger=TriggerSpec(processing_time=0.0, available_now=True)),
        "no trigger interval",
    ),
    "mostly checkpoint": Case(
        "SW103",
        facts(history=history(batch=1.0, checkpoint=0.6)),
        facts(history=history(batch=1.0, checkpoint=0.5)),
        "60% of a batch",
        origin=FactOrigin.HISTORY,
    ),
    "rows are not counted": Case(
        "SW104",
        conf(**{"rocksdb.trackTotalNumberOfRows": "false"}),
        conf(**{"rocksdb.trackTotalNumberOfRows": "true"}),
        "0 rows",
    ),
    "snapshots are not reported": Case(
        "SW104",
        conf(numStateStoreInstanceMetricsToReport="0"),
        conf(numStateStoreInstanceMetricsToReport="1"),
        "which snapshot",
    ),
    "reports are lost": Case(
        "SW104",
        facts(history=history(batches=10, unreported=3)),
        facts(history=history(batches=10, unreported=2)),
        "3 of the newest 10",
        origin=FactOrigin.HISTORY,
    ),
    "few batches are kept": Case(
        "SW105",
        stream(conf={"spark.sql.streaming.minBatchesToRetain": "20"}),
        stream(conf={"spark.sql.streaming.minBatchesToRetain": "100"}),
        "some 40 s",
    ),
    "fewer than a drill goes back": Case(
        "SW105",
        facts(drills=drilled(rewind=100)),
        facts(drills=drilled(rewind=99)),
        "goes 100 back",
        Severity.ERROR,
    ),
    "timers that clear nothing": Case(
        "SW106", processor(UNCLEARED), processor(CLEARED), "never clears", Severity.ERROR, FactOrigin.JOB
    ),
    "no batches without data": Case(
        "SW106",
        stream(conf={"spark.sql.streaming.noDataMicroBatches.enabled": "false"}),
        processor(CLEARED),
        "until new rows come",
    ),
    "old versions stay": Case("SW106", conf(maintenanceInterval="1h"), conf(maintenanceInterval="10m"), "every 1h"),
    "nothing is ever removed": Case(
        "SW106",
        facts(history=history(rows_first=10, rows_last=1000)),
        facts(history=history(rows_first=10, rows_last=1000, rows_removed=1)),
        "none was removed",
        origin=FactOrigin.HISTORY,
    ),
    "no drill": Case("SW107", facts(drills=()), facts(drills=drilled()), "no drill is declared"),
    "never drilled": Case(
        "SW107",
        facts(drills=drilled(last_at=None), history=history()),
        facts(drills=drilled(last_at=None), history=history(batches=0)),
        "never completed",
        origin=FactOrigin.HISTORY,
    ),
    "overdue": Case(
        "SW107",
        facts(drills=drilled(last_at=NOW - 2.1 * DAY), history=history()),
        facts(drills=drilled(last_at=NOW - 1.9 * DAY), history=history()),
        "last completed 2d",
        origin=FactOrigin.HISTORY,
    ),
    "deviated": Case(
        "SW107",
        facts(drills=drilled(last_passed=False), history=history()),
        facts(drills=drilled(), history=history()),
        "deviated",
        origin=FactOrigin.HISTORY,
    ),
    "custom state as UnsafeRow": Case(
        "SW108", processor(CLEARED), processor(CLEARED, encoding=Encoding.AVRO), "unsaferow"
    ),
    "the schema is not checked": Case(
        "SW108", conf(stateSchemaCheck="false"), conf(stateSchemaCheck="true"), "garbage", Severity.ERROR
    ),
    "a sink that is written again": Case(
        "SW109", script('.format("kafka")'), script('.format("delta")'), "at least once", origin=FactOrigin.JOB
    ),
    "the same beside the sink that is a table": Case(
        "SW109",
        script('.format("kafka")'),
        facts(of=spec(sink=PostgresqlSink(connection="warehouse", table="t"))),
        "at least once",
        origin=FactOrigin.JOB,
    ),
    "the same where it is declared": Case(
        "SW109",
        facts(of=spec(sink=KafkaSink(connection="events", topic="t", key=("k",)))),
        facts(of=spec(sink=ParquetSink(path="/out"))),
        "drops the ids (streamwarden-event-id)",
    ),
    "foreachBatch without the batch": Case(
        "SW109",
        script(".foreachBatch(write)"),
        script(".foreachBatch(lambda rows, batch: merge(rows, batch))"),
        "does not depend on the batch's id",
        Severity.ERROR,
        FactOrigin.JOB,
    ),
    "a script whose sink is not found": Case(
        "SW109",
        facts(of=spec(sink=SinkSpec())),
        facts(),
        "no writeStream was found",
        Severity.UNKNOWN,
        FactOrigin.JOB,
    ),
    "a docstring that does not tell of state": Case(
        "SW110",
        processor(CLEARED),
        processor(DOCUMENTED + CLEARED.replace("\n    ", "\n")),
        "no paragraph",
        origin=FactOrigin.JOB,
    ),
    "a job that is no Python": Case(
        "SW111", broken("def build(:"), facts(), "it cannot be parsed", Severity.ERROR, FactOrigin.JOB
    ),
    "a script with two queries, none of them declared": Case(
        "SW111",
        several(2),
        several(2, of=spec(queries={"a": "/a", "b": "/b"})),
        "starts 2 queries, and the file declares none",
        origin=FactOrigin.JOB,
    ),
    "a script that starts another number than is declared": Case(
        "SW111",
        several(3, of=spec(queries={"a": "/a", "b": None})),
        several(3),
        "starts 3 queries, and the file declares 2 queries",
        Severity.ERROR,
        FactOrigin.JOB,
    ),
    "queries of a job that has one": Case(
        "SW111",
        facts(of=spec(queries={"a": "/a"})),
        facts(),
        "the job has `build`",
        Severity.ERROR,
    ),
    "a script with another checkpoint than its stream": Case(
        "SW112",
        one_query('.option("checkpointLocation", "/elsewhere").start("/data/out")'),
        one_query('.option("checkpointLocation", "/data/orders").start("/data/out")'),
        "the script names the checkpoint /elsewhere, and the file declares",
        Severity.ERROR,
        FactOrigin.JOB,
    ),
    "a quarantine that the job does not use": Case(
        "SW113",
        facts(of=spec(quarantine="/data/bad"), job=job("def build(spark, spec): ...\n")),
        facts(of=spec(quarantine="/data/bad"), job=built(BOUNDED)),
        "the job does not use `read_rows`",
    ),
    "a file whose name is a pattern": Case(
        "SW115",
        facts(pattern_names=("a[1].json", "b*.json")),
        facts(),
        "the file a[1].json and 1 more, whose name Spark takes for a pattern",
    ),
    "a quarantine that an imported module may use": Case(
        "SW113",
        facts(of=spec(quarantine="/data/bad"), job=job("from rows import events\n\ndef build(spark, spec): ...\n")),
        facts(job=job("from rows import events\n\ndef build(spark, spec): ...\n")),
        "which may use `read_rows` or not",
        Severity.UNKNOWN,
        FactOrigin.JOB,
    ),
    "the newest files first, with a watermark": Case(
        "SW114",
        options(latestFirst="true"),
        facts(of=with_options(latestFirst="true"), job=built("events"), plan=PlanFacts()),
        "latestFirst: true: the newest files move the watermark",
        Severity.ERROR,
    ),
    "a source that removes what another stream reads": Case(
        "SW114",
        facts(of=with_options(cleanSource="delete"), readers=("latest",)),
        options(cleanSource="delete"),
        "it removes files that latest may not have read yet",
        Severity.ERROR,
    ),
    "a source that removes what its quarantine reads": Case(
        "SW114",
        facts(of=spec(source=FilesSource(path="/data/in", options={"cleanSource": "archive"}), quarantine="/data/q")),
        options(cleanSource="off"),
        "the quarantine reads the files",
    ),
    "a source that removes what the same script reads": Case(
        "SW114",
        broken(READS.format(option='.option("cleanSource", "delete")', path="/data/in")),
        broken(READS.format(option='.option("cleanSource", "delete")', path="/data/other")),
        "another source of the job may not have read yet",
        Severity.ERROR,
        FactOrigin.JOB,
    ),
    "a short age of files": Case(
        "SW114", options(maxFileAge="1h"), options(maxFileAge="7d"), "maxFileAge: 1h: a file that is more than 1h older"
    ),
    "an age of files that nobody can read": Case(
        "SW114", options(maxFileAge="soon"), options(), "not a duration", Severity.UNKNOWN
    ),
    "files of one name": Case("SW114", options(fileNameOnly="true"), options(fileNameOnly="false"), "of the same name"),
    "corrupt files": Case(
        "SW114", options(ignoreCorruptFiles="TRUE"), options(ignoreCorruptFiles="false"), "corrupt file"
    ),
    "missing files": Case("SW114", options(ignoreMissingFiles="true"), options(), "missing file"),
    "rows that are dropped": Case(
        "SW114",
        broken(READS.format(option='.option("mode", "DROPMALFORMED")', path="/data/in")),
        options(mode="DROPMALFORMED"),  # read_rows sets the mode itself
        "rows that do not fit the schema are dropped",
        origin=FactOrigin.JOB,
    ),
    "lost records that nobody hears of": Case(
        "SW114", options(failOnDataLoss="false"), options(failOnDataLoss="true"), "skipped without an error"
    ),
    "a beginning at the end": Case(
        "SW114", options(startingOffsets="latest"), options(startingOffsets="earliest"), "records that the topic has"
    ),
    "a beginning that is over": Case(
        "SW114",
        facts(of=with_options(startingTimestamp="1700000000000"), checkpoint=kept()),
        options(startingTimestamp="1700000000000"),
        "only the first batch of a checkpoint reads it",
    ),
    "constants of a script that are no text": Case(
        "SW114",
        broken(
            READS.format(option='.option("latestFirst", True)', path="/data/in") + 'x.withWatermark("at", "1 hour")'
        ),
        broken(
            READS.format(option='.option("latestFirst", False)', path="/data/in") + 'x.withWatermark("at", "1 hour")'
        ),
        "latestFirst: true",
        Severity.ERROR,
        FactOrigin.JOB,
    ),
    "settings that leave files out": Case(
        "SW114",
        facts(of=spec(conf={"spark.sql.files.ignoreMissingFiles": "true"})),
        facts(of=spec(conf={"spark.sql.files.ignoreMissingFiles": "false"})),
        "spark.sql.files.ignoreMissingFiles is true",
    ),
    "the watermark of the faster source": Case(
        "SW114",
        facts(of=spec(conf={"spark.sql.streaming.multipleWatermarkPolicy": "max"})),
        facts(of=spec(conf={"spark.sql.streaming.multipleWatermarkPolicy": "min"})),
        "rows of the slower one come late",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_bad_example_is_found_and_the_good_one_is_not(name: str) -> None:
    case = CASES[name]
    told = [each for each in found(case.bad, case.rule) if case.says in each.observed]
    assert [(each.severity, each.origin) for each in told] == [(case.severity, case.origin)], found(case.bad, case.rule)
    assert told[0].remedy
    assert told[0].where
    assert [each for each in found(case.good, case.rule) if case.says in each.observed] == []


def test_every_rule_has_an_example() -> None:
    assert {case.rule for case in CASES.values()} == {rule.id for rule in RULES}
    assert len(RULES) == 15


def test_a_good_stream_is_clean() -> None:
    assert lint(facts(drills=drilled(), history=history(rows_removed=5))) == ()


def test_rules_for_state_skip_a_stream_without_state() -> None:
    """Neither snapshots nor an encoding nor a docstring on state."""
    of = spec(conf={f"{STORE}.minDeltasForSnapshot": "99"})
    assert lint(facts(of=of, job=job("def build(spark, spec): ..."), plan=PlanFacts(), drills=drilled())) == ()


def test_unread_drills_are_unknown_not_missing() -> None:
    (finding,) = found(facts(), "SW107")
    assert finding.severity is Severity.UNKNOWN


def test_a_provider_of_ones_own_is_unknown() -> None:
    (finding,) = found(stream(state=StateSpec(backend="com.example.Provider")), "SW102")
    assert finding.severity is Severity.UNKNOWN


def test_the_gravest_comes_first() -> None:
    severities = [each.severity.rank for each in lint(facts(plan=None, drills=(), job=job(CLEARED)))]
    assert severities == sorted(severities, reverse=True)


def test_a_rule_that_fails_is_unknown_and_the_others_are_still_asked() -> None:
    broken = facts(plan=DUPLICATES, drills=drilled(), history=None, conf=None)
    findings = lint(broken)
    assert "SW101" in {each.rule for each in findings if each.severity is Severity.ERROR}
    assert any("the rule itself failed" in each.observed for each in findings)
