"""Incidents, what people do about them, and when they are notified."""
