"""Diagnoses a checkpoint: its damage, and the steps to repair it."""
