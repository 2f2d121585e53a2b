"""Repositories of batches and measurements, their rollup and their retention."""
