"""The kinds of source: one module each."""
