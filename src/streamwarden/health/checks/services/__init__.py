"""Checks of the servers that a stream needs."""
