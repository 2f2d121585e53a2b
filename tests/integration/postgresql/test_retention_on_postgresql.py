"""The tests of unit/store/test_store_retention.py, on PostgreSQL."""

from unit.store.test_store_retention import *  # noqa: F403
