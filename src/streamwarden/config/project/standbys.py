"""`config/standbys.yaml`: how many processes wait on each host for any stream that may use them."""

from dataclasses import asdict, dataclass
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
    drills: int = 0
    """as many more for the drivers of forks, each in a working folder of its own; without `count` only for the first
    driver of a fork, so that a drill measures the recovery that the stream would have"""


def load_standbys(project: Path) -> Standbys:
    """The settings of the project; the defaults if there is no file. Raises ConfigError with all its problems."""
    path = project / FILE
    if not path.exists() and not path.is_symlink():
        return Standbys()
    document = read_document(path, file=str(FILE))
    settings = parse(Standbys, document)
    problems = [
        Problem(key=(key,), observed=str(number), allowed=f"a number from 0 to {MOST}")
        for key, number in asdict(settings).items()
        if not 0 <= number <= MOST
    ]
    if problems:
        raise refusal(document, problems)
    return settings
