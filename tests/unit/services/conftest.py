"""A store for each test of the services."""

from collections.abc import Iterator

import pytest

from streamwarden.adapters.store import Store


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    with Store(store_url, busy_timeout=20) as opened:
        yield opened
