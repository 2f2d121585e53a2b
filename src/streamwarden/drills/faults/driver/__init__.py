"""Faults that hit the driver or its executors."""
