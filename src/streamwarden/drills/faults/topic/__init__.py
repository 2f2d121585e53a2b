"""Faults that change the copied topic of a fork."""
