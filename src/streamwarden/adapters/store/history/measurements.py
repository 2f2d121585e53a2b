"""The measurement repository: numbers that no progress report contains, raw and by the hour."""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from streamwarden.adapters.store.database import Repository, upsert
from streamwarden.adapters.store.history.rollup_hours import horizon, hour_of, mark_unrolled
from streamwarden.adapters.store.tables import hourly, measurements
from streamwarden.health.window import Measurement
from streamwarden.units import HOUR

_RAW: Final = tuple(measurements.c[name] for name in ("stream", "name", "at", "value", "unit", "source"))

_PER_POINT: Final = 4
"""Hours that are read at least for a point of a chart, if the stream has as many."""


class Statistic(StrEnum):
    """Which statistic of an hour's samples is returned."""

    MEAN = "mean"
    TOTAL = "total"
    LEAST = "least"
    MOST = "most"


@dataclass(frozen=True, slots=True)
class RolledUp:
    """The roll-ups of one number over some hours: how many hours have it, its samples, and the sum of these."""

    hours: int
    samples: int
    total: float

    @property
    def mean(self) -> float:
        return self.total / self.samples


class SqlMeasurementRepository(Repository):
    """Keeps measurements. Each method is one transaction and raises StoreError."""

    def add(self, new: Iterable[Measurement]) -> None:
        """Store measurements; storing one again changes nothing. One older than the retention horizon is ignored."""
        given = list(new)

        def put(connection: Connection) -> None:
            before = horizon(connection, hold=True)
            taken = {
                (measurement.stream, measurement.at, measurement.name, measurement.source): asdict(measurement)
                for measurement in given
                if measurement.at >= before
            }
            upsert(connection, measurements, list(taken.values()))
            mark_unrolled(connection, [(stream, at) for stream, at, _, _ in taken])

        if given:
            self._database.write(put)

    def recent(self, stream: str, since: float) -> tuple[Measurement, ...]:
        """Measurements of `stream` at or after `since`, oldest first."""
        return self.recents([stream], since)[stream]

    def recents(
        self, streams: Sequence[str], since: float, names: Sequence[str] = ()
    ) -> dict[str, tuple[Measurement, ...]]:
        """`recent` of many streams in one query; only those called `names`, if some are given."""
        query = (
            sa.select(*_RAW)
            .where(measurements.c.stream.in_(streams), measurements.c.at >= since)
            .order_by(measurements.c.stream, measurements.c.at, measurements.c.name, measurements.c.source)
        )
        if names:
            query = query.where(measurements.c.name.in_(names))
        return self._grouped(query, streams, _raw)

    def hourly(self, stream: str, since: float, statistic: Statistic = Statistic.MEAN) -> tuple[Measurement, ...]:
        """Roll-ups of the hours from the one of `since` on, oldest first; `at` is the middle of the hour.

        Also what was rolled up from batches, named as in `rollup.Rolled`.
        """
        return self.hourlies([stream], since, statistic)[stream]

    def hourlies(
        self,
        streams: Sequence[str],
        since: float,
        statistic: Statistic = Statistic.MEAN,
        only: Sequence[str] = (),
    ) -> dict[str, tuple[Measurement, ...]]:
        """`hourly` of many streams in one query; only the roll-ups of these names, if some are given."""
        query = (
            hourly.select()
            .where(hourly.c.stream.in_(streams), hourly.c.hour >= hour_of(since))
            .order_by(hourly.c.stream, hourly.c.hour, hourly.c.name, hourly.c.source)
        )
        if only:
            query = query.where(hourly.c.name.in_(only))
        return self._grouped(query, streams, partial(_rolled, statistic=statistic))

    def kept_since(self) -> float:
        """Unix seconds: batches and measurements before this time were pruned, only their roll-ups are kept. 0 before
        the first pruning."""
        return self._database.read(horizon)

    def condensed(
        self, stream: str, names: Sequence[str], since: float, until: float, points: int
    ) -> dict[float, dict[str, RolledUp]]:
        """Unix time -> name -> the roll-ups of the hours around that time; at most `points` times, oldest first.

        The hours begin between `since` and `until`. Where there are more than `points`, several become one, with the
        weight of their samples. Of a long time some hours of each point are read, spread evenly: each is the newest of
        its stretch that the stream has, found by an index, so the cost does not grow with the time.
        """
        first, end = hour_of(since), hour_of(until + HOUR - 1)
        span = HOUR * max(1, math.ceil((end - first) / HOUR / points))
        stretch = HOUR * max(1, span // HOUR // _PER_POINT)
        newest = hourly.alias("newest")
        number = sa.select(sa.literal(0).label("n")).cte("numbers", recursive=True)
        number = number.union_all(sa.select(number.c.n + 1).where(number.c.n < (end - first - 1) // stretch))
        begin = first + number.c.n * stretch
        hour = (
            sa.select(sa.func.max(newest.c.hour))
            .where(newest.c.stream == stream, newest.c.hour >= begin, newest.c.hour < begin + stretch)
            .where(newest.c.hour < end)
            .scalar_subquery()
        )
        rows = (
            sa.select(
                ((hourly.c.hour - first) // span).label("number"),
                hourly.c.name,
                hourly.c.hour,
                hourly.c.samples,
                hourly.c.total,
            )
            .where(hourly.c.stream == stream, hourly.c.name.in_(names))
            .where(hourly.c.hour.in_(sa.select(hour.label("hour")).select_from(number)))
            .subquery()
        )
        query = (
            sa.select(
                rows.c.number,
                rows.c.name,
                sa.func.count(rows.c.hour.distinct()).label("hours"),
                sa.func.sum(rows.c.samples).label("samples"),
                sa.func.sum(rows.c.total).label("total"),
            )
            .group_by(rows.c.number, rows.c.name)
            .order_by(rows.c.number)
        )
        samples: dict[float, dict[str, RolledUp]] = {}
        for row in self._rows(query):
            start = first + row.number * span
            numbers = samples.setdefault((start + min(start + span, end)) / 2, {})
            numbers[row.name] = RolledUp(int(row.hours), int(row.samples), float(row.total))
        return samples

    def sampled(
        self, wanted: Collection[tuple[str, str]], since: float, until: float, points: int
    ) -> dict[tuple[str, str], tuple[tuple[float, float], ...]]:
        """At most `points` (Unix time, value) of each wanted measurement, spread evenly, oldest first.

        Each is the newest of its stretch of time, found by an index: the cost does not grow with what is stored.

        Args:
            wanted: (stream, name of the measurement).
        """
        step = (until - since) / points
        newest = measurements.alias("newest")
        number = sa.select(sa.literal(1).label("n")).cte("numbers", recursive=True)
        number = number.union_all(sa.select(number.c.n + 1).where(number.c.n < points))
        end = since + number.c.n * sa.literal(step, sa.Double)
        at = (
            sa.select(newest.c.at)
            .where(newest.c.stream == sa.bindparam("of"), newest.c.name == sa.bindparam("called"))
            .where(newest.c.at <= end, newest.c.at > end - sa.literal(step, sa.Double))
            .order_by(newest.c.at.desc())
            .limit(1)
            .scalar_subquery()
        )
        query = (
            sa.select(measurements.c.at, sa.func.max(measurements.c.value).label("value"))
            .where(measurements.c.stream == sa.bindparam("of"), measurements.c.name == sa.bindparam("called"))
            .where(measurements.c.at.in_(sa.select(at.label("at")).select_from(number)))
            .group_by(measurements.c.at)
            .order_by(measurements.c.at)
        )
        rows_of = self._database.read(
            lambda connection: {
                (stream, name): connection.execute(query, {"of": stream, "called": name}).all()
                for stream, name in wanted
            }
        )
        return {series: tuple((row.at, row.value) for row in rows) for series, rows in rows_of.items()}


def _raw(row: Sequence[Any]) -> Measurement:
    # An evaluation reads a hundred rows of each stream, and to look up the name of each column would be slow.
    stream, name, at, value, unit, source = row
    return Measurement(stream=stream, name=name, at=at, value=value, unit=unit, source=source)


def _rolled(row: Row[Any], statistic: Statistic) -> Measurement:
    values = {
        Statistic.MEAN: row.total / row.samples,
        Statistic.TOTAL: row.total,
        Statistic.LEAST: row.least,
        Statistic.MOST: row.most,
    }
    return Measurement(
        stream=row.stream,
        name=row.name,
        at=row.hour + HOUR / 2,
        value=values[statistic],
        unit=row.unit,
        source=f"{row.source}, {statistic.value} of {row.samples} in an hour",
    )
