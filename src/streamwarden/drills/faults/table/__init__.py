"""Faults that another program causes in the table that a fork writes."""
