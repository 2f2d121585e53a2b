"""What oracles are written with: the input batch by batch, windows, sessions, deduplication."""
