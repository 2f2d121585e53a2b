"""Executes the batches of a finished fork again in a second fork that no fault hits, and compares the two outputs."""
