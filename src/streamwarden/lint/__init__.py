"""The best practices of state management as rules: pure functions from what is known of a stream to findings."""
