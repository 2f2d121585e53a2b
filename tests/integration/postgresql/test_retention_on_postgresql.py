"""The tests of store/test_store_retention.py, on PostgreSQL."""

from store.test_store_retention import *  # noqa: F403
