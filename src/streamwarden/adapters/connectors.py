"""The jars by which a driver's Spark reads and writes its stream's topics: Spark itself has none for that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from streamwarden.adapters import maven
from streamwarden.errors import ProcessError
from streamwarden.stream import SinkKind, SourceKind, StreamSpec

_JARS: Final = "spark.jars"
_PLACES: Final = (_JARS, "spark.jars.packages")
_KAFKA: Final = "spark-sql-kafka"


def with_connector(spec: StreamSpec, conf: Mapping[str, str]) -> dict[str, str]:
    """`conf` with the connector's jars beside those that it names, unless it names a Kafka connector of its own.

    Raises ProcessError if the jars are not on this host.
    """
    on_kafka = spec.source.kind is SourceKind.KAFKA or spec.sink.kind is SinkKind.KAFKA
    if not on_kafka or any(_KAFKA in conf.get(place, "") for place in _PLACES):
        return dict(conf)
    found = maven.jars(maven.KAFKA)
    if not found:
        raise ProcessError(
            "the jars of Spark's Kafka connector are not on this host",
            expected=f"those that `streamwarden prepare --kafka` fetches, or a {_KAFKA} in {' or '.join(_PLACES)}",
            where=spec.file or spec.name,
            next_step="run `streamwarden prepare --kafka`, or name them in the stream's spark.conf",
        )
    named = [conf[_JARS]] if conf.get(_JARS) else []
    return {**conf, _JARS: ",".join([*named, *map(str, found)])}
