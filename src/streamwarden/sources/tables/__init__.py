"""What the kinds of source share that read a table: Delta and Iceberg."""
