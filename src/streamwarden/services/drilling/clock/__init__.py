"""Steps the clock of a fork."""
