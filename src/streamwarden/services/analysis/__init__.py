"""Gathers the facts that lint and tuning judge."""
