"""Writes and sends notifications."""
