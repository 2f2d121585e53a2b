"""Checks of the table that a stream writes: its data files and its log."""
