"""Facts of a stream for the rules, with only what a test is about."""

from __future__ import annotations

import textwrap
from typing import Any

from streamwarden.lifecycle.submission import spark_conf
from streamwarden.lint.facts import Facts, JobFacts
from streamwarden.lint.finding import Finding
from streamwarden.lint.job_reader import read_job
from streamwarden.lint.judge import lint
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sources.files import FilesSource
from streamwarden.stream import SparkSpec, StreamSpec

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


def job(text: str, of: StreamSpec | None = None, **modules: str) -> JobFacts:
    """What is read from this text; `modules`: files beside it."""
    beside = {name: textwrap.dedent(each) for name, each in modules.items()}
    return read_job(JOB, textwrap.dedent(text), of or spec(), beside.get)


def built(result: str, of: StreamSpec | None = None) -> JobFacts:
    """A job that returns this expression over `events`, a stream of (at, id)."""
    return job(BUILD.format(result=result), of)


def facts(result: str = BOUNDED, /, of: StreamSpec | None = None, **changes: Any) -> Facts:
    """Facts of a stream whose declaration is `of` and whose job returns `result`."""
    of = of or spec()
    return Facts(**{"spec": of, "conf": spark_conf(of), "job": built(result, of), **changes})


def found(of: Facts, rule: str) -> list[Finding]:
    """What one rule says; that a rule itself failed fails the test."""
    findings = lint(of)
    assert not [each for each in findings if "the rule itself failed" in each.observed]
    return [each for each in findings if each.rule == rule]
