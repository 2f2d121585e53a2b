"""Compares the output of a stream with what its oracle expects."""
