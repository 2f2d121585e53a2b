"""Binds the drill engine's ports to the real world."""
