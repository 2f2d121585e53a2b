"""Servers that the files of this folder share: one of each for all tests of a worker.

Every test here has the marker `full`: what they start takes minutes and gigabytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streamwarden.adapters.connections import variable
from streamwarden.services.replay.replay import replay
from support.servers import hadoop, object_store


@pytest.fixture(scope="session")
def flights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """6,000 flights in 12 files."""
    folder = tmp_path_factory.mktemp("flights")
    replay(folder, rows_per_file=500, limit=6_000)
    return folder


@pytest.fixture(scope="module")
def lake() -> Iterator[object_store.ObjectStore]:
    """An object store, to which the connection `lake` leads."""
    with object_store.running(jars=False) as store, pytest.MonkeyPatch.context() as patch:
        patch.setenv(variable("lake"), store.connection())
        yield store


@pytest.fixture(scope="session")
def hdfs() -> Iterator[hadoop.Hdfs]:
    """A NameNode and a DataNode on loopback."""
    with hadoop.hdfs() as opened:
        yield opened


@pytest.fixture(scope="session")
def yarn() -> Iterator[hadoop.Yarn]:
    """A ResourceManager and a NodeManager on loopback, with this machine's disk as their storage."""
    with hadoop.yarn() as opened:
        yield opened
