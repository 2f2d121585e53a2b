"""Faults that change the input files of a fork."""
