"""Reads a Structured Streaming checkpoint without Spark: layout, logs, sizes, and the consequences of damage."""
