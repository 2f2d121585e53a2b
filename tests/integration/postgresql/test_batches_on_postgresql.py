"""The tests of unit/store/test_store_batches.py, on PostgreSQL."""

from unit.store.test_store_batches import *  # noqa: F403
