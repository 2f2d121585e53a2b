"""The program for `streamwarden audit`: both sides of the books of a running query.

Argument: a folder with `request.json`; it writes `result.json`. It reads the input of the audited batches, their output
and the state before and after them, and changes nothing. What it cannot balance it says in `impossible`.
"""

import json
import tempfile
import traceback
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from streamwarden.config.loading import spec_from_dict
from streamwarden.spark.audit.books import compared
from streamwarden.spark.audit.input import AuditedInput, replayed
from streamwarden.spark.audit.operators import sides
from streamwarden.spark.audit.plan import CannotBalance, Catalyst
from streamwarden.spark.driver.jobs import load_build
from streamwarden.spark.internals.readers_writers import frame_of
from streamwarden.verification.balance import Result


def main(folder: Path) -> None:
    """Build the query over both kinds of input, make the sides of its books, compare them."""
    request = json.loads((folder / "request.json").read_text(encoding="utf-8"))
    spec = spec_from_dict(request["spec"])
    spark = SparkSession.builder.getOrCreate()
    build = load_build(Path(spec.job))
    given = AuditedInput.of(request)
    before, tempfile.tempdir = tempfile.tempdir, str(folder)  # rows of a table go to a file: the folder is removed
    try:
        streaming = _frame(build(spark, spec))
        with replayed(given):
            batch = _frame(build(spark, spec))
        catalyst = Catalyst(spark)
        books = sides(catalyst, spec, request, given, streaming, batch)
        result = Result(books=compared(books, limit=request["named"]))
    except CannotBalance as reason:
        result = Result(impossible=str(reason))
    except Exception as error:  # whatever the job or Spark raises is what the person needs to see
        result = Result(failed=f"{type(error).__name__}: {str(error).partition(chr(10))[0]}")
        traceback.print_exc()
    finally:
        tempfile.tempdir = before
    (folder / "result.json").write_text(result.to_json(), encoding="utf-8")


def _frame(built: Any) -> DataFrame:
    frame = frame_of(built)
    if not isinstance(frame, DataFrame):
        raise CannotBalance(f"build() returned {type(built).__name__}, not a DataFrame")
    return frame
