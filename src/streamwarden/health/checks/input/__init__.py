"""Checks of the input: backlog, lost input, late rows, watermark."""
