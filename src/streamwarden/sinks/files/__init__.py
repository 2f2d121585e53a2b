"""Shared code of the kinds of sink that write files with Spark's exactly-once file sink."""
