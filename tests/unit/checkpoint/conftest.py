"""Checkpoints that real Sparks wrote."""

from collections.abc import Iterator

import pytest

from support.checkpoints import Archives, Unpack


@pytest.fixture(scope="session")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Archives]:
    made = Archives(tmp_path_factory.mktemp("checkpoints"))
    yield made
    made.check()


@pytest.fixture
def unpack(archives: Archives) -> Unpack:
    """Lays out the checkpoint of this name in a folder."""
    return archives.unpack
