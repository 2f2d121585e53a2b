"""Carries out one request to rewrite a state, for the programs that do it: from `request.json` of a folder to
`result.json`, a list of one answer, or to `refused.json`: why there is none."""

import json
import traceback
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from pyspark.sql import SparkSession

from streamwarden.config.schema import load
from streamwarden.errors import StreamwardenError
from streamwarden.lifecycle.surgery.assignment import Assign
from streamwarden.lifecycle.surgery.rewriting import Rewrite
from streamwarden.lifecycle.time_travel.answers import Refused
from streamwarden.spark.state.reader import plainly_named
from streamwarden.spark.state.refusals import failed, refused

_Of = TypeVar("_Of", Rewrite, Assign)


def carry_out(folder: Path, kind: type[_Of], work: Callable[[SparkSession, _Of], Any]) -> None:
    """Read, rewrite, write."""
    (request,) = json.loads((folder / "request.json").read_text(encoding="utf-8"))
    answer = _answered(SparkSession.builder.getOrCreate(), load(kind, request), work)
    if isinstance(answer, Refused):
        (folder / "refused.json").write_text(json.dumps(asdict(answer)), encoding="utf-8")
    else:
        (folder / "result.json").write_text(json.dumps([asdict(answer)]), encoding="utf-8")


def _answered(spark: SparkSession, wanted: _Of, work: Callable[[SparkSession, _Of], Any]) -> Any:
    with plainly_named(wanted.checkpoint) as read, plainly_named(wanted.into or "") as into:
        try:
            return work(spark, replace(wanted, checkpoint=read, into=into or None))
        except StreamwardenError as error:
            return refused(error)
        except Exception as error:  # whatever Spark raises is what the person needs to see
            traceback.print_exc()
            return failed(error, wanted.words)
