"""Commands that start, stop and show streams."""
