"""Advice from a stream's own history: pure functions from what was measured to what should be set, with the numbers."""
