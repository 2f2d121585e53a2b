"""The tests of store/test_store_repositories.py, on PostgreSQL."""

from store.test_store_repositories import *  # noqa: F403
