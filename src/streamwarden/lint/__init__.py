"""The best practices of state management as rules: pure functions from the known facts of a stream to findings."""
