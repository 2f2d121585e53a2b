"""The rows of streams as metric families of prometheus_client. A value that is not known is left out: it is never 0."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, StateSetMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from streamwarden.lifecycle.queries import SEPARATOR
from streamwarden.services.exporting import metrics
from streamwarden.services.overview.rows import Judgement, StreamRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrape:
    """Input of one scrape. Times are Unix seconds.

    Args:
        now: when it is answered.
        rows: the streams that the scraper may see.
        read_at: when the rows were read; None if they could not be read.
        judged_at: when all streams were judged last; None: never, or the scraper may not know.
    """

    now: float
    rows: Sequence[StreamRow] = ()
    read_at: float | None = None
    judged_at: float | None = None


def exposition(scrape: Scrape, accept: str) -> tuple[bytes, str]:
    """The text of a scrape and its content type: OpenMetrics if the Accept header asks for it, as Prometheus does."""
    registry = CollectorRegistry()
    registry.register(ScrapeCollector(scrape))
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


class ScrapeCollector(Collector):
    """Makes the families of one scrape."""

    def __init__(self, scrape: Scrape) -> None:
        self._scrape = scrape

    def describe(self) -> Iterator[Family]:
        """The registry would otherwise collect everything once to learn the names."""
        return iter(())

    def collect(self) -> Iterator[Family]:
        """Families without a sample are left out."""
        return (family for family in self._families() if family.samples)

    def _families(self) -> Iterator[Family]:
        rows, now = self._scrape.rows, self._scrape.now
        yield _infos(rows)
        yield from (_states(states, rows) for states in metrics.STATE_SETS)
        yield from (_numbers(metric, rows, now) for metric in metrics.METRICS)
        yield from (_counts(counts, rows) for counts in metrics.COUNTS)
        yield _check_statuses(rows)
        scrape = self._scrape
        yield _single(metrics.ROUND_AGE, None if scrape.judged_at is None else scrape.now - scrape.judged_at)
        yield _single(metrics.ROWS_AGE, None if scrape.read_at is None else scrape.now - scrape.read_at)
        yield _single(metrics.FAILURES, float(scrape.read_at is None))


def _labels(row: StreamRow) -> tuple[str, str]:
    stream, _, query = row.stream.partition(SEPARATOR)
    return stream, query


def _numbers(metric: metrics.Metric, rows: Sequence[StreamRow], now: float) -> Family:
    kind = CounterMetricFamily if metric.counter else GaugeMetricFamily
    family = kind(metric.name, metric.help, labels=metrics.LABELS, unit=metric.unit)
    for row in rows:
        value = metric.value(row, now) if metric.of_queries or not row.is_query else None
        if value is not None and math.isfinite(value):
            family.add_metric(_labels(row), value)
    return family


def _states(states: metrics.StateSet, rows: Sequence[StreamRow]) -> Family:
    family = StateSetMetricFamily(states.name, states.help, labels=metrics.LABELS)
    for row in rows:
        word = states.word(row) if states.of_queries or not row.is_query else None
        if word is not None:
            family.add_metric(_labels(row), {state: state == word for state in states.words})
    return family


def _counts(declared: metrics.Counts, rows: Sequence[StreamRow]) -> Family:
    family = GaugeMetricFamily(declared.name, declared.help, labels=(*metrics.LABELS, declared.label))
    for row in rows:
        found = {str(kind): count for kind, count in declared.counts(row).items()}
        for kind in declared.kinds:
            family.add_metric((*_labels(row), str(kind)), found.get(str(kind), 0))
    return family


def _check_statuses(rows: Sequence[StreamRow]) -> Family:
    family = GaugeMetricFamily(metrics.CHECK_STATUS.name, metrics.CHECK_STATUS.help, labels=(*metrics.LABELS, "check"))
    for row in rows:
        for metric in row.metrics.values():
            if metric.status is not Judgement.NOT_APPLICABLE:
                family.add_metric((*_labels(row), metric.check), metric.status.rank)
    return family


def _infos(rows: Sequence[StreamRow]) -> Family:
    family = InfoMetricFamily(
        metrics.STREAM_INFO.name.removesuffix("_info"), metrics.STREAM_INFO.help, labels=metrics.LABELS
    )
    for row in rows:
        family.add_metric(_labels(row), {"dag_id": row.dag_id, "owner": row.owner})
    return family


def _single(declared: metrics.Single, value: float | None) -> Family:
    family = GaugeMetricFamily(declared.name, declared.help, labels=(), unit=declared.unit)
    if value is not None:
        family.add_metric((), max(0.0, value))
    return family
