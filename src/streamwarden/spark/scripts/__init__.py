"""Runs unmodified PySpark scripts: their queries are named, measured and, on a fork, redirected."""
