"""Fixtures of the proofs: a store, and streams whose state a test changes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamwarden.adapters.store import Store
from support.spark.state_surgery import Made, maker


@pytest.fixture
def made(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    return maker(spark, tmp_path, monkeypatch)


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    with Store(store_url) as opened:
        yield opened
