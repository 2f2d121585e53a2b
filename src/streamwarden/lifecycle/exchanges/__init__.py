"""Exchanges: a prepared checkpoint takes the place of a stopped stream's one. Pure."""
