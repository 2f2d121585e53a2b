"""Lines of Streamwarden in the driver's log."""

import sys


def say(text: str) -> None:
    """Write a line to the driver's log, at once."""
    print(f"streamwarden: {text}", file=sys.stderr, flush=True)
