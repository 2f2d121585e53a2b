"""A job with custom state begins with the exported state of an aggregation: the job of docs/how-to/initial-state.md.

1. An aggregation counts and sums purchases by customer, and stops; its state is exported.
2. The page's job begins with the export, and reads the purchases that came since; it is restarted in between.
3. Each customer has what one query over everything would say.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamwarden.services.state.exports import export_to, target_of
from streamwarden.services.state.looking import Selection
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sources.files import FilesSource
from streamwarden.spark.driver.jobs import load_build
from streamwarden.stream.spec import StreamSpec
from support.airflow.harness import REPOSITORY
from support.guides import Page
from support.spark.state_looks import read_here
from support.spark.worker import ROCKSDB

pytestmark = pytest.mark.spark

PAGE = REPOSITORY / "docs" / "how-to" / "initial-state.md"


def buy(folder: Path, number: int, *purchases: tuple[str, int]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"customer": customer, "amount": amount}) for customer, amount in purchases]
    (folder / f"{number}.json").write_text("\n".join(lines) + "\n")


def stream(root: Path, name: str, **changes: Any) -> StreamSpec:
    spec = StreamSpec(
        name=name,
        job=str(root / f"{name}.py"),
        checkpoint=str(root / "checkpoints" / name),
        source=FilesSource(path=str(root / "input" / name)),
        sink=ParquetSink(path=str(root / "output" / name)),
        data=str(root / "data"),
    )
    return replace(spec, **changes)


def run(frame: Any, spec: StreamSpec, mode: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    taken = frame.writeStream.foreachBatch(lambda batch, _: rows.extend(row.asDict() for row in batch.collect()))
    query = taken.outputMode(mode).option("checkpointLocation", spec.checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    return rows


def test_a_processor_goes_on_from_the_state_of_an_aggregation(
    tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.sql import functions as f

    read_here(monkeypatch, spark)
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    old = stream(tmp_path, "purchases")
    buy(Path(str(old.source.path)), 0, ("ann", 10), ("bob", 5), ("ann", 7))
    purchases = spark.readStream.schema("customer STRING, amount BIGINT").json(str(old.source.path))
    totals = purchases.groupBy("customer").agg(f.count("*").alias("entries"), f.sum("amount").alias("spent"))
    run(totals, old, "update")
    export = tmp_path / "purchases.parquet"
    assert export_to(old, Selection(), target_of(str(export), old)).answer.rows == 2

    ((path, text),) = Page(PAGE.read_text()).jobs()
    new = stream(tmp_path, "totals", args=(str(export),))
    assert path == "spark_jobs/totals.py"
    Path(new.job).write_text(text)
    build = load_build(Path(new.job))
    buy(Path(str(new.source.path)), 1, ("ann", 1), ("cyd", 2))
    rows = run(build(spark, new), new, "append")
    buy(Path(str(new.source.path)), 2, ("bob", 3))
    rows += run(build(spark, new), new, "append")

    found = Counter({(row["customer"], row["entries"], row["spent"]): 1 for row in rows})
    assert found == Counter([("ann", 3, 18), ("cyd", 1, 2), ("bob", 2, 8)])
    assert len(rows) == 3
