"""The program for `streamwarden state delete`: takes keys out of a state, into a copy of its checkpoint.

Argument: a folder with `request.json`, a list of one `Rewrite`; it writes `result.json`, a list of one `Rewritten`, or
`refused.json`: why there is none.
"""

import json
import traceback
from dataclasses import asdict, replace
from pathlib import Path

from pyspark.sql import SparkSession

from streamwarden.config.schema import load
from streamwarden.errors import ConfigError
from streamwarden.lifecycle.surgery.rewriting import Rewrite, Rewritten
from streamwarden.lifecycle.time_travel.answers import Refused
from streamwarden.spark.state.reader import plainly_named
from streamwarden.spark.state.refusals import failed, refused
from streamwarden.spark.state.taking_out import take_out


def main(folder: Path) -> None:
    """Read, rewrite, write."""
    (request,) = json.loads((folder / "request.json").read_text(encoding="utf-8"))
    answer = _answered(SparkSession.builder.getOrCreate(), load(Rewrite, request))
    if isinstance(answer, Refused):
        (folder / "refused.json").write_text(json.dumps(asdict(answer)), encoding="utf-8")
    else:
        (folder / "result.json").write_text(json.dumps([asdict(answer)]), encoding="utf-8")


def _answered(spark: SparkSession, wanted: Rewrite) -> Rewritten | Refused:
    with plainly_named(wanted.checkpoint) as read, plainly_named(wanted.into or "") as into:
        try:
            return take_out(spark, replace(wanted, checkpoint=read, into=into or None))
        except ConfigError as error:
            return refused(error)
        except Exception as error:  # whatever Spark raises is what the person needs to see
            traceback.print_exc()
            return failed(error, f"operator {wanted.operator}")
