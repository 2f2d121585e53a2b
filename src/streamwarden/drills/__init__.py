"""Experiments on streams: hypothesis, fault, recovery, verification, journal."""
