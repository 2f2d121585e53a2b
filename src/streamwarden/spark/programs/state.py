"""The program for `streamwarden state`: answers a question about the state of a checkpoint that nobody changes.

Argument: a folder with `request.json`; it writes `result.json`, or `refused.json`: why there is no answer. An export is
in the folder `export`.
"""

import json
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from streamwarden.config.schema import load
from streamwarden.errors import ConfigError
from streamwarden.lifecycle.time_travel.answers import Answer, Asked, Question, Refused
from streamwarden.spark.audit.damage import said
from streamwarden.spark.state.comparing import compare
from streamwarden.spark.state.exporting import export
from streamwarden.spark.state.reader import plainly_named
from streamwarden.spark.state.showing import history, show

_ANSWERS: Final[Mapping[Asked, Callable[[SparkSession, Question, Path], Answer]]] = {
    Asked.SHOW: lambda spark, question, folder: show(spark, question),
    Asked.HISTORY: lambda spark, question, folder: history(spark, question),
    Asked.DIFF: lambda spark, question, folder: compare(spark, question),
    Asked.EXPORT: export,
}


def main(folder: Path) -> None:
    """Read, answer, write."""
    question = load(Question, json.loads((folder / "request.json").read_text(encoding="utf-8")))
    spark = SparkSession.builder.getOrCreate()
    name, answer = "result", None
    with plainly_named(question.checkpoint) as checkpoint:
        try:
            answer = asdict(_ANSWERS[question.asked](spark, replace(question, checkpoint=checkpoint), folder))
        except ConfigError as error:
            name, answer = "refused", asdict(_refused(error))
        except Exception as error:  # whatever Spark raises is what the person needs to see
            name, answer = "refused", asdict(_failed(error, question))
            traceback.print_exc()
    (folder / f"{name}.json").write_text(json.dumps(answer), encoding="utf-8")


def _refused(error: ConfigError) -> Refused:
    return Refused(
        observed=error.observed, expected=error.expected, where=error.where, next_step=error.next_step, usage=True
    )


def _failed(error: Exception, question: Question) -> Refused:
    return Refused(
        observed=f"Spark cannot read the state: {type(error).__name__}: {said(error)}",
        expected="whole state files, in a format that this Spark reads",
        where=question.table.words,
        next_step="run `streamwarden inspect` on the checkpoint, or look at another batch",
        usage=False,
    )
