"""Private calls that read and write whole states: the stores of a checkpoint, as the bytes that Spark keeps."""
