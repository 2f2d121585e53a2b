from collections.abc import Iterator

import pytest

from support import killed


@pytest.fixture(scope="module", autouse=True)
def nothing_left_running() -> Iterator[None]:
    yield
    killed.end()
