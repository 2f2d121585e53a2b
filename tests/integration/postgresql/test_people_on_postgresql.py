"""The tests of store/test_store_people.py, on PostgreSQL."""

from store.test_store_people import *  # noqa: F403
