"""Reads a Structured Streaming checkpoint without Spark: layout, logs, sizes, and what a damage means."""
