"""Recommends settings from a stream's own history. Pure functions, with every number that a recommendation rests on."""
