"""The kind of source `iceberg`: an Iceberg table, read as a stream of the files that its snapshots append."""
