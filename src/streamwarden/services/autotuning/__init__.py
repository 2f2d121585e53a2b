"""Tries the settings that `tuning` advises on forks of a stream, and writes those that are a gain into its file."""
