"""The program for `streamwarden state set`: gives a key of a state another value, in a copy of its checkpoint.

Argument: a folder with `request.json`, a list of one `Assign`; it writes `result.json`, a list of one `Assigned`, or
`refused.json`: why there is none.
"""

from pathlib import Path

from streamwarden.lifecycle.surgery.assignment import Assign
from streamwarden.spark.state.assigning import assign
from streamwarden.spark.state.surgery import carry_out


def main(folder: Path) -> None:
    """Read, rewrite, write."""
    carry_out(folder, Assign, assign)
