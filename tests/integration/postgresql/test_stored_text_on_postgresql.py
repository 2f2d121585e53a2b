"""The tests of store/test_stored_text.py, on PostgreSQL."""

from store.test_stored_text import *  # noqa: F403
