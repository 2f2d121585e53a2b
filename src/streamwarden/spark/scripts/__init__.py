"""Runs unmodified PySpark scripts: what they start is named, measured and, on a fork, redirected."""
