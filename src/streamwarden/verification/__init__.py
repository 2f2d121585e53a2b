"""Compares a stream's output with the expected one: oracles and reconciliation. Pure."""
