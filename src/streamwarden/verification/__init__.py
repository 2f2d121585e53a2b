"""Compares what came out of a stream with what should have: oracles and reconciliation. Pure."""
