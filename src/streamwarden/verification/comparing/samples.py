"""A row of an output as the text that a journal keeps: the row, the batch that wrote it, and that batch's input."""

import re
from dataclasses import dataclass
from typing import Final

_DUE: Final = re.compile(r"(?P<row>.*); due from (?P<due>.*)", re.DOTALL)
_ORIGIN: Final = re.compile(r"(?P<row>.*); written by batch (?P<batch>[0-9]+)(?:, which read (?P<read>.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Sample:
    """Args:
    batch: that wrote the row; None: it was not written, or the sink does not say.
    read: the input of that batch; empty: it is not known.
    due: the input that should have made a row that was not written; empty: it is not known.
    """

    row: str
    batch: int | None = None
    read: str = ""
    due: str = ""

    def __str__(self) -> str:
        if self.due:
            return f"{self.row}; due from {self.due}"
        if self.batch is None:
            return self.row
        return f"{self.row}; written by batch {self.batch}" + (f", which read {self.read}" if self.read else "")


def parse_sample(text: str) -> Sample:
    """The parts of a sample. The inverse of `str`."""
    match = _ORIGIN.fullmatch(text)
    if match is None:
        due = _DUE.fullmatch(text)
        return Sample(text) if due is None else Sample(due["row"], due=due["due"])
    return Sample(match["row"], int(match["batch"]), match["read"] or "")
