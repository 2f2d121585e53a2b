"""Every oracle of the catalogue declares the columns of its job's output: the whole set, with Spark's own types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamwarden.services.verifying.oracle_files import load_oracle
from streamwarden.spark.driver.jobs import load_build
from streamwarden.verification.comparing.column_types import parse_type
from streamwarden.verification.oracle import RateFacts, RunFacts
from support.streams.catalogue import STREAMS, stream

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("name", STREAMS)
def test_the_oracle_declares_the_columns_of_its_job(spark: Any, name: str, tmp_path: Path) -> None:
    spec = stream(name, tmp_path)
    for folder in spec.source.folders:
        Path(folder).mkdir(parents=True)
    frame: Any = load_build(Path(spec.job))(spark, spec)
    nothing = RunFacts(
        files={},
        watermarks={},
        committed=None,
        args=spec.args,
        ttl=spec.state.ttl,
        rate=RateFacts(began_ms=0, ends={}, rows_per_second=1),
    )
    expectation = load_oracle(Path(spec.job))([], nothing)
    declared = {column: parse_type(written).shown for column, written in expectation.types.items()}
    assert declared == {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    assert {*expectation.key_columns, *expectation.value_columns} == set(declared)
    assert expectation.complete
