"""Prints the part of the lock that the image needs: without what only the tests and the tools of development need.

`uv pip compile` writes below each package who asked for it. A package stays if the project itself asks for it, or a
package that stays. Versions and hashes are the lock's own.

    python runtime_lock.py requirements.txt
"""

import re
import sys
from pathlib import Path

_PROJECT = "streamwarden (pyproject.toml)"
_LEFT_OUT = {
    # The scheduler of the image's Airflow runs the tasks itself.
    "apache-airflow-providers-celery",
    "celery",
    # Readers of tables that no stream of the image writes: Delta and Iceberg have no jars for its Spark.
    "deltalake",
    "pyiceberg",
}


def runtime_lock(lock: str) -> str:
    """The lock's entries that the project needs to run."""
    entries = {re.split(r"[=\[ @]", text, maxsplit=1)[0]: text for text in re.split(r"\n(?=[a-z0-9])", lock)[1:]}
    askers = {name: set(_askers(text)) for name, text in entries.items() if name not in _LEFT_OUT}
    needed = {_PROJECT}
    while more := {name for name, by in askers.items() if by & needed} - needed:
        needed |= more
    return "\n".join(text.rstrip() for name, text in entries.items() if name in needed) + "\n"


def _askers(entry: str) -> list[str]:
    comments = [line.strip().removeprefix("#").strip() for line in entry.splitlines() if line.strip().startswith("#")]
    return [comment.removeprefix("via").strip() for comment in comments if comment != "via"]


if __name__ == "__main__":
    print(runtime_lock(Path(sys.argv[1]).read_text(encoding="utf-8")), end="")
