"""Streamwarden keeps stateful Spark Structured Streaming jobs alive, healthy and provably correct."""
