"""Savepoints: takes, lists, verifies and deletes complete copies of a checkpoint, while its query runs."""
