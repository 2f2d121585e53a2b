"""Histories of a stateful processor without Spark: drawn batches drive it, and its oracle judges what came out."""

from __future__ import annotations

import json
import os
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import strategies as st
from pyspark.sql import Row

from streamwarden.verification.oracle import Expectation, Oracle, RunFacts
from streamwarden.verification.reconciliation import Reconciliation
from support.oracles.reconciling import reconcile
from support.oracles.ticking import Ticking

START = 1_760_000_000_000
Rows = list[tuple[tuple[object, ...], tuple[object, ...]]]
Line = Callable[[Sequence[Any], int, str], tuple[Any, dict[str, Any], dict[str, Any]]]
"""(what was drawn, time, place) -> (key, the line's JSON, the row that Spark would make of it)."""


class Batch(NamedTuple):
    """A batch as it is drawn: files of lines; the last value of a line says whether a malformed line precedes it."""

    gap_ms: int
    files: list[list[Any]]
    killed: bool


def histories(line: st.SearchStrategy[Any], gaps: st.SearchStrategy[int], most: int) -> st.SearchStrategy[list[Batch]]:
    """Up to twelve batches of up to three files, each of `most` lines at most."""
    files = st.lists(st.lists(line, max_size=most), max_size=3)
    return st.lists(st.builds(Batch, gaps, files, st.booleans()), min_size=1, max_size=12)


class Run(NamedTuple):
    """A history. `sent`: key -> (time, values of the row); `clock`: the last time, or the last watermark."""

    out: list[Any]
    ticking: Ticking
    sent: dict[Any, list[tuple[Any, ...]]]
    files: dict[str, list[str]]
    facts: RunFacts
    clock: int


def drive(
    ticking: Ticking,
    batches: Iterable[Batch],
    line: Line,
    *,
    keys: Iterable[Any],
    malformed: Sequence[str],
    args: tuple[str, ...],
    late: int | None = None,
    ttl_ms: int | None = None,
) -> Run:
    """Drive the processor through the batches.

    Args:
        late: by event time: the milliseconds by which the watermark trails the newest `at_ms` of a row.
    """
    now, mark, newest = START, 0, 0
    out: list[Any] = []
    sent: dict[Any, list[tuple[Any, ...]]] = {key: [] for key in keys}
    files: dict[str, list[str]] = {}
    read, times, marks = {}, {}, {}
    for number, batch in enumerate(batches):
        now += batch.gap_ms
        closed, mark = mark, max(mark, newest - (late or 0))
        rows: dict[Any, list[Row]] = defaultdict(list)
        for index, drawn in enumerate(batch.files):
            name = f"{number:02d}-{index}.json"
            lines = files[name] = []
            for *values, after_malformed in drawn:
                key, fields, row = line(values, now, f"{name}/{len(lines)}")
                lines += [malformed[len(lines) % len(malformed)]] if after_malformed else []
                lines.append(json.dumps(fields))
                sent.setdefault(key, []).append((now, *row.values()))
                newest = 0 if late is None else max(newest, row["at_ms"])
                if late is None or row["at_ms"] > closed:
                    rows[key].append(Row(**row, written_ms=number, place=name))
        for found in rows.values():  # a shuffle keeps the order within a file only
            found.sort(key=lambda row: row.place, reverse=True)
        read[number] = [Path(f"{number:02d}-{index}.json") for index in range(len(batch.files))]
        times[number], marks[number] = now, mark
        out += ticking.batch(now if late is None else mark, rows, killed=batch.killed)
    ttl = None if ttl_ms is None else ttl_ms / 1000
    facts = RunFacts(files=read, watermarks=marks, committed=len(times) - 1, times=times, args=args, ttl=ttl)
    return Run(out, ticking, sent, files, facts, now if late is None else mark)


def expectation(oracle: Oracle, made: Run) -> Expectation:
    """What the oracle expects of the history; each file is written an hour after its batch."""
    with tempfile.TemporaryDirectory() as folder:
        for name, lines in made.files.items():
            path = Path(folder, name)
            path.write_text("".join(f"{line}\n" for line in lines))
            os.utime(path, (START / 1000 + 3600 + int(name[:2]),) * 2)
        return oracle(sorted(Path(folder).iterdir()), made.facts)


def judged(wanted: Expectation, rows: Rows) -> Reconciliation:
    """The oracle's expectation against these rows."""
    return reconcile(wanted.rows, rows, problems=wanted.problems)


def counters(outcome: Reconciliation) -> tuple[int, int, int, int]:
    return outcome.lost, outcome.duplicated, outcome.unexpected, outcome.wrong
