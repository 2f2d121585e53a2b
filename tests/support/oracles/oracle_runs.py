"""Runs for an oracle to judge, without Spark: files, and what a checkpoint would say of them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from streamwarden.services.verifying.oracle_files import load_oracle
from streamwarden.verification.oracle import Expectation, RunFacts

REPOSITORY = Path(__file__).resolve().parents[3]
WRITTEN = 2_000_000_000
"""Modification time of every file, Unix seconds: May 2033."""


@contextmanager
def ran(batches: Sequence[Sequence[str]], marks: Sequence[int]) -> Iterator[tuple[list[Path], RunFacts]]:
    """A file for each batch of lines. `marks`: their watermarks (Unix ms), then that of a last batch without data."""
    assert len(marks) == len(batches) + 1
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for number, lines in enumerate(batches):
            path = Path(folder) / f"{number:04d}.json"
            path.write_text("".join(f"{line}\n" for line in lines))
            os.utime(path, (WRITTEN, WRITTEN))
            paths.append(path)
        facts = RunFacts(
            files={number: [path] for number, path in enumerate(paths)},
            watermarks=dict(enumerate(marks)),
            committed=len(batches),
        )
        yield paths, facts


def marks_of(times: Sequence[Sequence[int]], delay: int) -> list[int]:
    """The watermarks that Spark would log for batches with these event times (Unix ms)."""
    marks = [0]
    for each in times:
        marks.append(max([marks[-1], *(at - delay for at in each)]))
    return marks


def expectation(job: str, batches: Sequence[Sequence[str]], marks: Sequence[int]) -> Expectation:
    """What the oracle of `job` says of such a run."""
    with ran(batches, marks) as (inputs, facts):
        return load_oracle(REPOSITORY / "spark_jobs" / f"{job}.py")(inputs, facts)


def iso(milliseconds: int) -> str:
    at = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1000:03d}Z"
