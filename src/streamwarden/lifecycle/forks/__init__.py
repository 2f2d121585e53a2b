"""Forks: their parts, places and creation; decisions only."""
