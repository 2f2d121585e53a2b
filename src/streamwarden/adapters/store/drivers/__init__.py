"""Repositories of drivers, leases, stop requests and queries."""
