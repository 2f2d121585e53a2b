"""Writes the reference pages from the declarations in the code: `make docs`."""
