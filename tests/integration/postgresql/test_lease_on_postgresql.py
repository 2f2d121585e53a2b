"""The tests of unit/store/test_store_lease.py, on PostgreSQL."""

from unit.store.test_store_lease import *  # noqa: F403
