"""Probes streams, runs their checks, keeps incidents and notifies."""
