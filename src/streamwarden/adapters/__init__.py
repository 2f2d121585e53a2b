"""The outside world: files, processes, the store, Great Expectations, notifiers."""
