"""The connectors' jars with which a driver's Spark reads and writes, where Spark itself has none."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from streamwarden.adapters.jvm import maven
from streamwarden.checkpoint.spark_support import NEWEST, Version, parsed, shown
from streamwarden.errors import ProcessError
from streamwarden.stream.spec import StreamSpec

_JARS: Final = "spark.jars"
_PLACES: Final = (_JARS, "spark.jars.packages")


@dataclass(frozen=True, slots=True)
class Connector:
    """Jars of one pom. A stream whose `spark.conf` names an `artifact` of its own brings all of them itself.

    The elements `name`, `description`, `artifact`, `spark` and `settings` of the pom give:

    Args:
        what: its name in a message; use: what needs it.
        spark: the version of Spark that its jars are for; a pom that names none has those for Streamwarden's own.
        settings: of Spark, without which it does not work.
    """

    pom: Path
    what: str
    use: str
    artifact: str
    spark: Version
    settings: Mapping[str, str]


@cache
def connectors() -> Mapping[str, Connector]:
    """The connectors by the name of their pom, under which a kind of source or of sink asks for one."""
    poms = {pom: pom.read_text(encoding="utf-8") for pom in sorted(maven.POMS.glob("*.xml"))}
    return {
        pom.stem: Connector(
            pom=pom,
            what=_element(text, "name"),
            use=_element(text, "description"),
            artifact=_element(text, "artifact"),
            spark=parsed(_element(text, "spark") or shown(NEWEST)),
            settings=dict(line.split("=", 1) for line in _element(text, "settings").split()),
        )
        for pom, text in poms.items()
        if "<artifact>" in text  # another pom is of no connector
    }


def _element(pom: str, name: str) -> str:
    return pom.partition(f"<{name}>")[2].partition(f"</{name}>")[0]


def with_connector(spec: StreamSpec, conf: Mapping[str, str]) -> dict[str, str]:
    """`conf` with the connectors' jars beside those that it names, unless it names connectors of its own, and with the
    settings that they need, unless it has them.

    Raises ProcessError if the jars are not on this host.
    """
    named = [conf[_JARS]] if conf.get(_JARS) else []
    for name in needed(spec):
        connector = connectors()[name]
        conf = {**connector.settings, **conf}
        if brought_along(connector, conf):
            continue
        jars = maven.jars(connector.pom)
        if not jars:
            raise ProcessError(
                f"the jars of {connector.what} are not on this host",
                expected=f"those that `streamwarden prepare --{name}` fetches, or a {connector.artifact} in "
                + " or ".join(_PLACES),
                where=spec.file or spec.name,
                next_step=f"run `streamwarden prepare --{name}`, or name them in the stream's spark.conf",
            )
        named += map(str, jars)
    return {**conf, _JARS: ",".join(named)} if named else dict(conf)


def brought_along(connector: Connector, conf: Mapping[str, str]) -> bool:
    """Whether a stream's settings name the connector's artifact themselves."""
    return any(connector.artifact in conf.get(place, "") for place in _PLACES)


def needed(spec: StreamSpec) -> tuple[str, ...]:
    """The names of the connectors that the stream's driver needs. The fork of a script declares no source and no sink:
    it needs those of its stream."""
    of_stream = spec.fork.connectors if spec.fork is not None else ()
    named = (*of_stream, spec.source.CONNECTOR, spec.sink.CONNECTOR, "s3" if spec.in_object_store else None)
    return tuple(dict.fromkeys(name for name in named if name))
