"""Makes and removes copies of streams."""
