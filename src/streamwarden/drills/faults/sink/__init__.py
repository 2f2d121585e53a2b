"""Faults that hit the sink of a fork."""
