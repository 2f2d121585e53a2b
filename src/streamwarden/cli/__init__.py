"""`streamwarden …`: everything that a DAG does, from a shell, without Airflow."""

import sys


def main() -> None:
    """Entry point of the command `streamwarden`."""
    from streamwarden.cli.app import run

    sys.exit(run(sys.argv[1:]))
