"""Repositories of journals, trials and the schedules of drills."""
