"""Compares the output of a stream with its oracle's output."""
