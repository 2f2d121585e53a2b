"""Watches a driver's executors."""
