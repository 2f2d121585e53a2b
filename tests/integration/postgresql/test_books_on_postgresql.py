"""The tests of store/test_store_books.py, on PostgreSQL."""

from store.test_store_books import *  # noqa: F403
