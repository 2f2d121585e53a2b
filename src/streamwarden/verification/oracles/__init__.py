"""Building blocks for oracles: the input batch by batch, windows, sessions, deduplication."""
