"""Repositories of verdicts, incidents, their notifications and mutes."""
