"""Exchanges: puts a prepared checkpoint in the place of a stopped stream's one; a kill leaves one of the two."""
