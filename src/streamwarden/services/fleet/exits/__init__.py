"""Finds out that a driver ended and why, and cleans up after it."""
