"""Charts with a line for each stateful operator, or for each partition of a source, that the reports name. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from streamwarden.progress import OperatorProgress, Progress, offset_value

MOST: Final = 6
"""Lines of a chart: those whose newest values are the largest."""

Parts = Callable[[Progress], Mapping[str, float]]
"""Name of each part in a report -> its value."""


def by_operator(read: Callable[[OperatorProgress], float]) -> Parts:
    """A number of each stateful operator, as `0 stateStoreSave`."""
    return lambda report: {f"{each.index} {each.name}": float(read(each)) for each in report.operators}


def lag_by_partition(report: Progress) -> dict[str, float]:
    """Records that a batch left unread in each partition, such as `clicks 3`. Only Kafka reports partitions."""
    return {
        name: lag
        for source in report.sources
        for name, lag in _lags(offset_value(source.latest_offset), offset_value(source.end_offset))
    }


def rows_written(report: Progress) -> dict[str, float]:
    """Only some sinks count: Spark's sink of files does not."""
    return {} if report.rows_written is None else {"written": float(report.rows_written)}


def _lags(latest: Any, end: Any) -> Iterator[tuple[str, float]]:
    """Of Kafka's {topic: {partition: offset}}."""
    for topic, partitions in latest.items() if isinstance(latest, Mapping) else ():
        read = end.get(topic) if isinstance(end, Mapping) else None
        for partition, offset in partitions.items() if isinstance(partitions, Mapping) else ():
            done = read.get(partition, 0) if isinstance(read, Mapping) else 0
            if isinstance(offset, int) and isinstance(done, int):
                yield f"{topic} {partition}", float(max(0, offset - done))


def lines_of(parts: Parts, reports: Sequence[Progress]) -> list[tuple[str, list[float | None]]]:
    """A line for each part, by name, with a value for each report: None where it names no such part."""
    values = [parts(report) for report in reports]
    newest = {name: value for found in values for name, value in found.items()}
    largest = sorted(newest, key=lambda name: -newest[name])[:MOST]
    return [(name, [found.get(name) for found in values]) for name in sorted(largest)]
