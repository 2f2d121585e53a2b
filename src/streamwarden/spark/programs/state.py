"""The program for `streamwarden state`: answers questions about the state of checkpoints that nobody changes.

Argument: a folder with `request.json`, a list; it writes `result.json`, the answers in the same order, or
`refused.json`: why there is no answer. An export is in the folder `export`.
"""

import json
import traceback
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from streamwarden.config.schema import load
from streamwarden.errors import ConfigError
from streamwarden.lifecycle.time_travel.answers import Answer, Asked, Question, Refused
from streamwarden.spark.state.comparing import compare
from streamwarden.spark.state.exporting import export
from streamwarden.spark.state.placement import place
from streamwarden.spark.state.reader import plainly_named
from streamwarden.spark.state.refusals import failed, refused
from streamwarden.spark.state.showing import history, show

_ANSWERS: Final[Mapping[Asked, Callable[[SparkSession, Question, Path], Answer]]] = {
    Asked.SHOW: lambda spark, question, folder: show(spark, question),
    Asked.HISTORY: lambda spark, question, folder: history(spark, question),
    Asked.DIFF: lambda spark, question, folder: compare(spark, question),
    Asked.EXPORT: export,
    Asked.PLACEMENT: lambda spark, question, folder: place(spark, question),
}


def main(folder: Path) -> None:
    """Read, answer, write."""
    questions = [load(Question, one) for one in json.loads((folder / "request.json").read_text(encoding="utf-8"))]
    spark = SparkSession.builder.getOrCreate()
    answers = []
    for question in questions:
        answer = _answered(spark, question, folder)
        if isinstance(answer, Refused):
            return _write(folder / "refused.json", asdict(answer))
        answers.append(asdict(answer))
    _write(folder / "result.json", answers)


def _answered(spark: SparkSession, question: Question, folder: Path) -> Answer | Refused:
    with ExitStack() as links:
        named = replace(
            question,
            checkpoint=links.enter_context(plainly_named(question.checkpoint)),
            later=None if question.later is None else links.enter_context(plainly_named(question.later)),
        )
        try:
            return _ANSWERS[question.asked](spark, named, folder)
        except ConfigError as error:
            return refused(error)
        except Exception as error:  # whatever Spark raises is what the person needs to see
            traceback.print_exc()
            return failed(error, question.table.words)


def _write(path: Path, document: Any) -> None:
    path.write_text(json.dumps(document), encoding="utf-8")
