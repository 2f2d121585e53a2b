"""Commands that copy the state of a stream."""
