"""The kinds of sink: one module each."""
