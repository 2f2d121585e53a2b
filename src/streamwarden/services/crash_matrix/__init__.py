"""Restarts a stream from every state that a crash can leave, and verifies each output with a run without a crash."""
