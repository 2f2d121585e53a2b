"""The tests of unit/store/test_store_books.py, on PostgreSQL."""

from unit.store.test_store_books import *  # noqa: F403
