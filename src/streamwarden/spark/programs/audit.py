"""The program for `streamwarden audit`: both sides of the books of a running query.

Argument: a folder with `request.json`; it writes `result.json`. It reads the input of the audited batches, their output
and the state before and after them, and changes nothing. What it cannot balance it says in `impossible`.
"""

import json
import tempfile
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from streamwarden.config.stored_spec import spec_from_dict
from streamwarden.spark.audit.balancing import audited_query, balanced
from streamwarden.spark.audit.context import Audited
from streamwarden.spark.audit.damage import problem, unreadable
from streamwarden.spark.audit.input import AuditedInput, replayed
from streamwarden.spark.audit.plan import CannotBalance, Catalyst
from streamwarden.spark.driver.jobs import load_build
from streamwarden.spark.internals.exceptions import said
from streamwarden.spark.internals.readers_writers import frame_of
from streamwarden.spark.state.reader import plainly_named
from streamwarden.verification.comparing.balance import Result


def main(folder: Path) -> None:
    """Build the query over both kinds of input, make the sides of its books, compare them."""
    request = json.loads((folder / "request.json").read_text(encoding="utf-8"))
    spark = SparkSession.builder.getOrCreate()
    with plainly_named(request["checkpoint"]) as checkpoint:
        before, tempfile.tempdir = tempfile.tempdir, str(folder)  # rows of a table go to a file: the folder is removed
        try:
            result = _result(_audited(spark, {**request, "checkpoint": checkpoint}))
        except CannotBalance as reason:
            result = Result(impossible=str(reason))
        except Exception as error:  # whatever the job or Spark raises is what the person needs to see
            result = Result(failed=f"{type(error).__name__}: {said(error)}")
            traceback.print_exc()
        finally:
            tempfile.tempdir = before
    (folder / "result.json").write_text(result.to_json(), encoding="utf-8")


def _audited(spark: SparkSession, request: dict[str, Any]) -> Audited:
    spec = spec_from_dict(request["spec"])
    build = load_build(Path(spec.job))
    given = AuditedInput.of(request)
    streaming = _frame(build(spark, spec))
    with replayed(given):
        batch = _frame(build(spark, spec))
    return audited_query(Catalyst(spark), spec, request, given, streaming, batch)


def _result(audited: Audited) -> Result:
    """The books; without the data files that Spark cannot read, if there are any."""
    limit = audited.request["named"]
    try:
        return Result(books=balanced(audited, limit=limit))
    except CannotBalance:
        raise
    except Exception:
        damaged = unreadable(audited)
        if not damaged:
            raise
    output = audited.request["output"]
    whole = {**output, "files": [uri for uri in output["files"] if uri not in damaged]}
    problems = tuple(problem(uri, reason) for uri, reason in damaged.items())
    try:
        books = balanced(replace(audited, request={**audited.request, "output": whole}), limit=limit)
    except CannotBalance as reason:
        return Result(impossible=str(reason), problems=problems)
    return Result(books=books, problems=problems)


def _frame(built: Any) -> DataFrame:
    frame = frame_of(built)
    if not isinstance(frame, DataFrame):
        raise CannotBalance(f"build() returned {type(built).__name__}, not a DataFrame")
    return frame
