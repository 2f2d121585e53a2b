"""Presentation of a drill: report, sentence, timeline, and the resilience of a stream."""
