"""The program for `streamwarden state delete`: takes keys out of a state, into a copy of its checkpoint.

Argument: a folder with `request.json`, a list of one `Rewrite`; it writes `result.json`, a list of one `Rewritten`, or
`refused.json`: why there is none.
"""

from pathlib import Path

from streamwarden.lifecycle.surgery.rewriting import Rewrite
from streamwarden.spark.state.surgery import carry_out
from streamwarden.spark.state.taking_out import take_out


def main(folder: Path) -> None:
    """Read, rewrite, write."""
    carry_out(folder, Rewrite, take_out)
