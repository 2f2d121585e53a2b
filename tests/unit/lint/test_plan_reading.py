"""The stateful operators in logical plans, as Spark 4.3 printed them."""

from pathlib import Path

import pytest

from streamwarden.lint.facts import Bound, OperatorKind
from streamwarden.lint.plan_reader import identifying_columns, read_plan
from streamwarden.stream.spec import OutputMode
from support.streams.lint import facts, job

SOURCE = "StreamingRelation FileSource[/in], [id#0, at#1], name=<Unassigned>"
WATERMARK = "~EventTimeWatermark d291c03f-7712-475c-8481-d0e21673b1fb, at#1: timestamp, 6 hours"
WINDOWS = f"""\
~Project [window#31-T7200000ms.start AS window_start#32, origin#2, flights#17L]
+- ~Aggregate [window#31-T7200000ms, origin#2], [window#31-T7200000ms, origin#2, count(1) AS flights#17L]
   +- ~Filter isnotnull(at#1-T7200000ms)
      +- ~Expand [[named_struct(start, at#1-T7200000ms), id#0]], [window#31-T7200000ms, id#0]
         +- {WATERMARK}
            +- {SOURCE}
"""
PROCESSOR = f"""\
~TransformWithStateInPySpark transformWithStateUDF(id#0)#22, 1, [id#23], Append, ProcessingTime, python_row, false, 0
:- ~Project [id#0, id#0]
:  +- ~Union false, false
:     :- ~Project [id#0]
:     :  +- {SOURCE}
:     +- ~Project [0 AS id#18]
:        +- ~StreamingRelationV2 org.apache.spark.sql.execution.streaming.sources.RateStreamProvider@1a5, rate, []
+- LocalRelation <empty>
"""


JOIN = f"""\
~Join LeftOuter, ({{condition}})
:- ~Filter isnotnull(at#1-T6000ms)
:  +- {WATERMARK}
:     +- {SOURCE}
+- ~Project [hour#9-T3600ms]
   +- ~EventTimeWatermark 7b2c, hour#9: timestamp, 1 hours
      +- {SOURCE}
"""
ALIASED = f"""\
~Join LeftOuter, {{condition}}
:- ~SubqueryAlias f
:  +- {WATERMARK}
:     +- {SOURCE}
+- ~SubqueryAlias w
   +- ~EventTimeWatermark 7b2c, hour#9: timestamp, 1 hours
      +- {SOURCE}
"""
TABLE = f"""\
~Join Inner, (id#0 = id#8)
:- ~Project [id#0]
:  +- {SOURCE}
+- Deduplicate [id#8]
   +- Relation [id#8] parquet
"""
BOTH = "(id#0 = id#8) AND (at#1-T6000ms = hour#9-T3600ms)"


@pytest.mark.parametrize(
    ("plan", "kind", "bound"),
    [
        (WINDOWS, OperatorKind.AGGREGATION, Bound.WATERMARK),
        (
            f"~Aggregate [id#0], [id#0, count(1) AS n#3L]\n+- {WATERMARK}\n   +- {SOURCE}",
            OperatorKind.AGGREGATION,
            Bound.NONE,
        ),
        (f"~Aggregate [], [count(1) AS n#3L]\n+- {SOURCE}", OperatorKind.AGGREGATION, Bound.ONE_ROW),
        (f"~Deduplicate [id#0]\n+- {SOURCE}", OperatorKind.DEDUPLICATION, Bound.NONE),
        (f"~Deduplicate [id#0]\n+- {WATERMARK}\n   +- {SOURCE}", OperatorKind.DEDUPLICATION, Bound.NONE),
        (
            f"~Deduplicate [id#0, at#1-T6ms]\n+- {WATERMARK}\n   +- {SOURCE}",
            OperatorKind.DEDUPLICATION,
            Bound.WATERMARK,
        ),
        (
            f"~DeduplicateWithinWatermark [id#0]\n+- {WATERMARK}\n   +- {SOURCE}",
            OperatorKind.DEDUPLICATION,
            Bound.WATERMARK,
        ),
        (JOIN.format(condition=BOTH), OperatorKind.JOIN, Bound.WATERMARK),
        (JOIN.format(condition="id#0 = id#8"), OperatorKind.JOIN, Bound.NONE),
        (ALIASED.format(condition=BOTH), OperatorKind.JOIN, Bound.WATERMARK),
        (ALIASED.format(condition="(id#0 = id#8)"), OperatorKind.JOIN, Bound.NONE),
        (PROCESSOR, OperatorKind.PROCESSOR, Bound.UNKNOWN),
        (
            f"~FlatMapGroupsInPandasWithState f(id#0)#5, Update, NoTimeout\n+- {SOURCE}",
            OperatorKind.GROUP_STATE,
            Bound.NONE,
        ),
    ],
)
def test_operator_of_a_plan_is_found_with_its_bound(plan: str, kind: OperatorKind, bound: Bound) -> None:
    assert [(each.kind, each.bound) for each in read_plan(plan, OutputMode.APPEND).operators] == [(kind, bound)]


@pytest.mark.parametrize(
    "plan",
    [
        f"~Filter (id#0 > 1)\n+- {SOURCE}",
        TABLE,
        "",
        "no tree at all",
    ],
)
def test_stateless_plans_and_joins_with_tables_keep_no_state(plan: str) -> None:
    assert read_plan(plan, OutputMode.APPEND).operators == ()


def test_in_output_mode_complete_groups_stay() -> None:
    (operator,) = read_plan(WINDOWS, OutputMode.COMPLETE).operators
    assert operator.bound is Bound.NONE


def test_what_a_processor_clears_comes_from_its_class() -> None:
    """The plan holds the processor as pickled code; the job's text holds the class."""
    text = """
        class Counts:
            def init(self, handle):
                self._count = handle.getValueState("count", "n INT", 60000)

        def build(spark, spec):
            return spark.readStream.json("in").groupBy("id").transformWithState(Counts(), "o STRING", "Append", "None")
    """
    (operator,) = facts(job=job(text), plan=read_plan(PROCESSOR, OutputMode.APPEND)).operators() or ()
    assert operator.bound is Bound.TTL


PLANS = Path(__file__).parents[2] / "data" / "plans"


@pytest.mark.parametrize(
    ("plan", "columns"),
    [
        ((PLANS / "flight_departures.txt").read_text(), ("window_start", "origin", "carrier")),
        ((PLANS / "event_dedup.txt").read_text(), ("event_id", "event_time")),
        ((PLANS / "user_sessions.txt").read_text(), ()),  # the processor decides which rows there are
        ((PLANS / "flight_weather.txt").read_text(), ()),
        ("~Aggregate [a#1, b#2L], [a#1, b#2L, count(1) AS n#3L]", ("a", "b")),
        ("~Project [a#1 AS x#4, n#3L, b#2L]\n+- ~Aggregate [a#1, b#2L], [a#1, b#2L, count(1) AS n#3L]", ("x", "b")),
        ("~Project [a#1, n#3L]\n+- ~Aggregate [a#1, b#2L], [a#1, b#2L, count(1) AS n#3L]", ()),  # b is not shown
        ("~Project [upper(a#1) AS a#5]\n+- ~Aggregate [a#1], [a#1]", ()),  # two groups may become one value
        ("~Aggregate [(a#1 + 1)], [(a#1 + 1) AS b#2]", ()),  # an expression without a name
        ("Aggregate [a#1], [a#1]", ()),  # not a stream's
        ("no plan", ()),
    ],
)
def test_the_columns_that_identify_a_row_of_the_output(plan: str, columns: tuple[str, ...]) -> None:
    assert identifying_columns(plan) == columns
