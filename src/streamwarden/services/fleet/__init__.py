"""Starts, finds and stops drivers, and records their exits."""
