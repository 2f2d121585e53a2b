"""Checks of the state store."""
