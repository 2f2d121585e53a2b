"""Writes the files of a new stream into a project."""
