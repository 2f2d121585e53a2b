"""The kind of source `delta`: a Delta table, read as a stream of the files that its commits add."""
