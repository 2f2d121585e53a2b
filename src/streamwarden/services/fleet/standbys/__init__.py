"""Warm standbys: driver processes that wait, prepared beside a driver, and taken by the launch of the next one."""
