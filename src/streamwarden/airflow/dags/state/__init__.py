"""DAGs with a form for savepoints and state: verify, restore, look."""
