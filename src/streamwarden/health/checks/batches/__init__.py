"""Checks of the batches and of their duration."""
