"""The tests of store/test_store_batches.py, on PostgreSQL."""

from store.test_store_batches import *  # noqa: F403
