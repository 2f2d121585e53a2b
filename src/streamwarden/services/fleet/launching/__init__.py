"""Starts a driver's processes."""
