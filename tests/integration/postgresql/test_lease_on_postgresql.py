"""The tests of store/test_store_lease.py, on PostgreSQL."""

from store.test_store_lease import *  # noqa: F403
