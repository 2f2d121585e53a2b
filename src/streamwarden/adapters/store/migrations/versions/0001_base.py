"""The tables of version 0.1.0.

A new store gets the tables of `tables.py` and the newest revision at once. A revision changes the tables of an older
store, and this one is the oldest.
"""

revision = "v0001"
down_revision = None


def upgrade() -> None:
    """Change nothing: no store is older."""
