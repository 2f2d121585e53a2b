"""The report on a preflight, in lines for people."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from streamwarden.lifecycle.upgrades.preflight import OutputDifference, Preflight
from streamwarden.units import format_count

KINDS: Final = {
    "lost": "of the old version alone",
    "unexpected": "of the new version alone",
    "duplicated": "of the new version more often",
    "wrong": "with other values",
}
"""Kind of a sample -> what it is here."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the report. `warns`: a person has to know it; `rows`: sampled rows, which are data of the stream."""

    text: str
    warns: bool = False
    rows: tuple[str, ...] = ()


def report(found: Preflight) -> Iterator[Line]:
    """What the preflight found."""
    count = format_count(found.last - found.first + 1, "batch")
    batches = f"{count} ({found.first} to {found.last}) on forks, in {found.seconds:.0f} s"
    yield Line(f"{found.stream}, as of batch {found.batch}: {batches}")
    yield Line(f"  state: {', '.join(found.operators) or 'none'}")
    yield from (Line(f"  {change}") for change in (*found.state, *found.settings, *found.watermarks))
    if not found.seen:
        yield Line("  the state of the new version was not seen: it could not be begun anew", warns=True)
    elif not found.state:
        yield Line("  no change of the state: the same operators, variables and fields")
    if found.output is not None and not found.output.unproven:
        yield from _of_output(found.output)
    yield from (Line(f"  outside of the forks: {what}", warns=True) for what in found.outside)


def beside_line(found: OutputDifference, batch: int, behind: int) -> str:
    """How a version does that runs beside the old one. `batch`: the newest one that was compared."""
    where = f"beside: batch {batch}, {format_count(behind, 'batch')} behind"
    if found.unproven:
        return f"{where}; not compared: {found.unproven}"
    rows = f"{format_count(found.old, 'row')} of the old version and {found.new:,} of the new"
    return f"{where}; {rows} {'differ' if found.differs else 'are the same'}"


def _of_output(output: OutputDifference) -> Iterator[Line]:
    samples = tuple(f"{KINDS.get(kind, kind)}: {row}" for kind, rows in output.samples.items() for row in rows)
    if not output.old and not output.new:
        yield Line("  output: none of these batches wrote a row, so that nothing was compared", warns=True)
    else:
        by = f"identified by {', '.join(output.key)}" if output.key else "as whole rows"
        rows = f"{format_count(output.old, 'row')} of the old version and {output.new:,} of the new"
        yield Line(f"  output: {rows} {'differ' if output.differs else 'are the same'}, {by}", output.differs)
    for name in output.left_out:
        yield Line(f"    not compared: {name}, in which two runs of the old version differ")
    if samples:
        yield Line("    rows that differ:", rows=samples)
