"""Measurements and thresholds in, verdicts, forecasts and incidents out. Pure."""
