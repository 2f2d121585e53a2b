"""What is wrong with a checkpoint, and what to do about it."""
