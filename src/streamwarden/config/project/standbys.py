"""`config/standbys.yaml`: how many processes wait on each host for any stream that may use them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streamwarden.config.schema import parse, refusal
from streamwarden.config.yaml_document import read_document
from streamwarden.problems import Problem

FILE: Final = Path("config/standbys.yaml")

MOST: Final = 20
"""Each one needs the memory of an idle driver."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standbys:
    """The pool of warm standbys."""

    count: int = 0
    """processes that wait on a host for each set of equal Spark settings; 0: there is no pool"""


def load_standbys(project: Path) -> Standbys:
    """The settings of the project; the defaults if there is no file. Raises ConfigError with all its problems."""
    path = project / FILE
    if not path.exists() and not path.is_symlink():
        return Standbys()
    document = read_document(path, file=str(FILE))
    settings = parse(Standbys, document)
    if not 0 <= settings.count <= MOST:
        problem = Problem(key=("count",), observed=str(settings.count), allowed=f"a number from 0 to {MOST}")
        raise refusal(document, [problem])
    return settings
