"""A database's words become ours only where they mean the same."""

import pytest

from streamwarden.adapters.store.explain import explain


@pytest.mark.parametrize(
    ("said", "observed"),
    [
        ('relation "batches" does not exist LINE 1: SELECT', "the store has not been migrated"),
        ('column "malformed" of relation "batches" does not exist', "the store has not been migrated"),
        ("no such column: malformed", "the store has not been migrated"),
        ('FATAL: database "flights" does not exist', "the server has no such database"),
        ('FATAL: role "ann" does not exist', "the database does not let this user in"),
        ('canceling statement due to lock timeout CONTEXT: while locking tuple in relation "leases"', "kept the store"),
        # Names of tables and columns stand in many an error that has nothing to do with migrations.
        ('deadlock detected CONTEXT: while updating tuple (0,1) in relation "batches"', "the store refused"),
        ('null value in column "at" of relation "batches" violates not-null constraint', "the store refused"),
    ],
)
def test_a_database_error_is_explained(said: str, observed: str) -> None:
    found = explain(Exception(said), path=None, busy_timeout=1.0)
    assert observed in found.observed
    assert said in found.observed, "its own words stand beside ours"
