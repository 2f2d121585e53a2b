"""Iceberg tables: their metadata, found without Spark."""
