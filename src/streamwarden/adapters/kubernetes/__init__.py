"""Kubernetes: its API server, and how a client shows who it is."""
