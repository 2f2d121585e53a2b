"""Computations on measurements, for several checks: series, growth, freshness, hysteresis."""
