"""DAGs for savepoints and state: take, verify, restore, look."""
