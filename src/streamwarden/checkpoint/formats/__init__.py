"""The files of a checkpoint, as Spark writes them."""
