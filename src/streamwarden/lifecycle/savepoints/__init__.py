"""A savepoint: a named, complete, consistent copy of a checkpoint at a committed batch. Pure."""
