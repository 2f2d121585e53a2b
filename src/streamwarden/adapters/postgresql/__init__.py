"""A PostgreSQL table as a stream's output: written exactly once, read back, forked."""
