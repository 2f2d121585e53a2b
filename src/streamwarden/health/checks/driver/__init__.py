"""Checks of the driver: is it up, how often was it restarted, how much memory does it take."""
