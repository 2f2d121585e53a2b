"""Facts of a stream for the rules, with only what a test is about."""

from __future__ import annotations

import textwrap
from functools import cache
from typing import Any

from streamwarden.lifecycle.submission import spark_conf
from streamwarden.lint.facts import Facts, JobFacts, PlanFacts
from streamwarden.lint.finding import Finding
from streamwarden.lint.job_reader import read_job
from streamwarden.lint.linter import lint
from streamwarden.lint.plan_reader import read_plan
from streamwarden.sinks import WRITERS
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sources.files import FilesSource
from streamwarden.stream.spark import SparkSpec
from streamwarden.stream.spec import OutputMode, StreamSpec

JOB = "/project/spark_jobs/orders.py"
BUILD = '''
    """Orders.

    State: one row for each open window.
    """
    from pyspark.sql.functions import col, window, session_window, expr
    from streamwarden.spark.sources import read_rows

    def build(spark, spec):
        events = read_rows(spark, spec, "at TIMESTAMP, id STRING")
        return {result}
'''
SOURCE = "StreamingRelation FileSource[/in], [id#0, at#1], name=<Unassigned>"
WATERMARK = "~EventTimeWatermark d291c03f-7712-475c-8481-d0e21673b1fb, at#1: timestamp, 1 hours"
WINDOWS = ("~Aggregate [window#31-T3600000ms], [window#31-T3600000ms, count(1) AS n#17L]", WATERMARK)
BOUNDED = 'events.withWatermark("at", "1 hour").groupBy(window("at", "5 minutes")).count()'


def spec(**changes: Any) -> StreamSpec:
    conf = changes.pop("conf", {})
    settings = {
        "name": "orders",
        "job": JOB,
        "checkpoint": "/data/orders",
        "source": FilesSource(path="/data/in"),
        "sink": ParquetSink(path="/data/out"),
        "spark": SparkSpec(conf=conf),
    }
    return StreamSpec(**{**settings, **changes})


@cache
def job(text: str) -> JobFacts:
    """What is read from this text."""
    return read_job(JOB, textwrap.dedent(text))


def built(result: str) -> JobFacts:
    """A job that returns this expression over `events`, a stream of (at, id)."""
    return job(BUILD.format(result=result))


@cache
def plan(*nodes: str) -> PlanFacts:
    """The plan of a query of these nodes, the result first."""
    lines = [f"{'' if not level else '   ' * (level - 1) + '+- '}{node}" for level, node in enumerate((*nodes, SOURCE))]
    return read_plan("\n".join(lines), OutputMode.APPEND)


def facts(*, of: StreamSpec | None = None, **changes: Any) -> Facts:
    """Facts of a stream whose declaration is `of` and whose job counts in windows, by its text and by its plan."""
    of = of or spec()
    return Facts(
        **{
            "spec": of,
            "conf": spark_conf(of),
            "writers": WRITERS,
            "job": built(BOUNDED),
            "plan": plan(*WINDOWS),
            **changes,
        }
    )


def found(of: Facts, rule: str) -> list[Finding]:
    """What one rule says; that a rule itself failed fails the test."""
    findings = lint(of)
    assert not [each for each in findings if "the rule itself failed" in each.observed]
    return [each for each in findings if each.rule == rule]
