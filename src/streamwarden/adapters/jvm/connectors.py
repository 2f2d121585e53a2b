"""The connectors' jars with which a driver's Spark reads and writes, where Spark itself has none."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from streamwarden.adapters.jvm import maven
from streamwarden.adapters.jvm.maven_project import built
from streamwarden.checkpoint.spark_support import NEWEST, Version, parsed, shown
from streamwarden.errors import ConfigError, ProcessError
from streamwarden.stream.spec import StreamSpec

_JARS: Final = "spark.jars"
_PLACES: Final = (_JARS, "spark.jars.packages")
_PROFILE: Final = re.compile(r"<profile>\s*<id>([0-9.]+)</id>")


@dataclass(frozen=True, slots=True)
class Connector:
    """Jars of one pom. A stream whose `spark.conf` names an `artifact` of its own brings all of them itself.

    The elements `name`, `description`, `artifact`, `spark` and `settings` of the pom give:

    Args:
        what: its name in a message; use: what needs it.
        profiles: version of Spark that it has jars for -> the pom's profile; None: the pom without one, whose version
            is that of its element `spark`, or else of Streamwarden's own Spark.
        settings: of Spark, without which it does not work.
    """

    pom: Path
    what: str
    use: str
    artifact: str
    profiles: Mapping[Version, str | None]
    settings: Mapping[str, str]

    @property
    def usual(self) -> Version:
        """The version of Spark whose jars the pom names without a profile."""
        return next(spark for spark, profile in self.profiles.items() if profile is None)

    @property
    def sparks(self) -> str:
        """The versions of Spark that it has jars for, for people."""
        return ", ".join(map(shown, sorted(self.profiles)))

    def profile(self, spark: Version) -> str | None:
        """The pom's profile for this Spark. Raises ConfigError if it has jars for others alone."""
        if spark in self.profiles:
            return self.profiles[spark]
        raise ConfigError(
            f"there are no jars of {self.what} for Spark {shown(spark)}",
            expected=f"Spark {self.sparks}",
            where=str(self.pom),
            next_step=f"name a {self.artifact} of your own in {' or '.join(_PLACES)} of the stream's spark.conf",
        )


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
            profiles={
                parsed(_element(text, "spark") or shown(NEWEST)): None,
                **{parsed(profile): profile for profile in _PROFILE.findall(text)},
            },
            settings=dict(line.split("=", 1) for line in _element(text, "settings").split()),
        )
        for pom, text in poms.items()
        if "<artifact>" in text  # another pom is of no connector
    }


def _element(pom: str, name: str) -> str:
    return pom.partition(f"<{name}>")[2].partition(f"</{name}>")[0]


def with_connector(spec: StreamSpec, conf: Mapping[str, str], spark: Version) -> dict[str, str]:
    """`conf` with the connectors' jars for this Spark beside those that it names, unless it names connectors of its
    own, with the settings that they need, unless it has them, and with the jar of the stream's Maven project.

    Raises ProcessError if the jars are not on this host, ConfigError if there are none for this Spark.
    """
    named = [conf[_JARS]] if conf.get(_JARS) else []
    for name in needed(spec):
        connector = connectors()[name]
        conf = {**connector.settings, **conf}
        if brought_along(connector, conf):
            continue
        jars = maven.jars(connector.pom, connector.profile(spark))
        if not jars:
            prepare = f"streamwarden prepare {options_of(name, connector, spec)}"
            raise ProcessError(
                f"the jars of {connector.what} for Spark {shown(spark)} are not on this host",
                expected=f"those that `{prepare}` fetches, or a {connector.artifact} in {' or '.join(_PLACES)}",
                where=spec.file or spec.name,
                next_step=f"run `{prepare}`, or name them in the stream's spark.conf",
            )
        named += map(str, jars)
    named += _of_project(spec, spark)
    return {**conf, _JARS: ",".join(named)} if named else dict(conf)


def _of_project(spec: StreamSpec, spark: Version) -> list[str]:
    """The jar of `spark.maven`. Raises ProcessError if it is not built."""
    if spec.spark.maven is None:
        return []
    jar = built(Path(spec.spark.maven), spark)
    if jar is None:
        raise ProcessError(
            f"the jar of {spec.spark.maven} for Spark {shown(spark)} is not on this host, or its sources have changed",
            expected="the jar that `streamwarden prepare --maven` builds from the sources as they are",
            where=spec.file or spec.name,
            next_step="run `streamwarden prepare --maven` on each host that starts the stream",
        )
    return [str(jar)]


def options_of(name: str, connector: Connector, spec: StreamSpec) -> str:
    """The options of `prepare` that fetch the connector's jars for the stream. One with jars for a single Spark needs
    no environment."""
    single = len(connector.profiles) == 1 or spec.spark.python is None
    return f"--{name}" if single else f"--{name} --python {shlex.quote(str(spec.spark.python))}"


def brought_along(connector: Connector, conf: Mapping[str, str]) -> bool:
    """Whether a stream's settings name the connector's artifact themselves."""
    return any(connector.artifact in conf.get(place, "") for place in _PLACES)


def needed(spec: StreamSpec) -> tuple[str, ...]:
    """The names of the connectors that the stream's driver needs. The fork of a script declares no source and no sink:
    it needs those of its stream."""
    of_stream = spec.fork.connectors if spec.fork is not None else ()
    named = (*of_stream, spec.source.CONNECTOR, spec.sink.CONNECTOR, "s3" if spec.in_object_store else None)
    return tuple(dict.fromkeys(name for name in named if name))
