"""Publishes the demo's input, to files or to a topic."""
