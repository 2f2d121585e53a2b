"""Time travel: looks at the state of a stream as it was after a batch, while the stream runs."""
