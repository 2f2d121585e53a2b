"""Audits: whether what a running stream read is in its output, in its state, or dropped as late."""
