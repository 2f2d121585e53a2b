"""Builds the DAGs."""
