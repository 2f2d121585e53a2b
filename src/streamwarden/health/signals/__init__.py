"""What several checks compute from measurements: series, growth, freshness, hysteresis."""
