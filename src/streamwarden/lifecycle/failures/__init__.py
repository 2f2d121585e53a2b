"""Why a driver ended, and whether a restart can cure it."""
