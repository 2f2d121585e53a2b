"""The rules of a stream that names an environment of its own: what its version of Spark lacks, and what was not tried.

It asks the interpreter where its packages are, once in this process.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from streamwarden.adapters.jvm.connectors import brought_along, connectors, needed
from streamwarden.adapters.jvm.environments import SparkEnvironment, making, named
from streamwarden.checkpoint.spark_support import METHODS, NEWEST, PROGRAMS, SETTINGS, SUPPORTED, Feature, lacks, shown
from streamwarden.clusters import manager_of
from streamwarden.errors import ConfigError
from streamwarden.extras import PACKAGES, installing
from streamwarden.lifecycle.settings import FORMAT
from streamwarden.problems import KeyPath, Problem, show
from streamwarden.stream.spec import Encoding, StreamSpec

_AT = ("spark", "python")


def environment_problems(spec: StreamSpec) -> list[Problem]:
    """Problems of a stream with `spark.python`; of any other stream, the connectors that its Spark lacks."""
    if spec.spark.python is None:
        return list(_connectors(spec, None))
    manager = manager_of(spec.spark.master)
    if manager.has_executors:
        allowed = "nothing with this master: an environment of its own was tried with `local[N]` alone"
        step = "delete it, or run the stream with a local master"
        return [Problem(key=_AT, observed=f"{show(spec.spark.python)}", allowed=allowed, next_step=step)]
    try:
        runs_in = named(spec.spark.python)
    except ConfigError as error:
        observed = f"{show(spec.spark.python)}: {error.observed}"
        return [Problem(key=_AT, observed=observed, allowed=error.expected, next_step=error.next_step)]
    return problems_on(spec, runs_in)


def problems_on(spec: StreamSpec, runs_in: SparkEnvironment) -> list[Problem]:
    """Problems of the stream on the Spark of this environment. Reads the job."""
    if runs_in.minor not in SUPPORTED:
        allowed = f"Spark {', '.join(map(shown, SUPPORTED))}: the versions on which streams were tried"
        step = "install one of them in that environment"
        return [Problem(key=_AT, observed=f"Spark {runs_in.version} is there", allowed=allowed, next_step=step)]
    return [*lacking(spec, runs_in), *_connectors(spec, runs_in), *_packages(spec, runs_in)]


def lacking(spec: StreamSpec, runs_in: SparkEnvironment) -> Iterator[Problem]:
    """What the stream asks for and this Spark lacks. Reads the job."""
    wanted = [*_declared(spec), *_in_the_job(spec)]
    for key, value, feature in wanted:
        since = feature.value
        if lacks(runs_in.minor, feature):
            yield Problem(
                key=key,
                observed=f"{show(value)}, and {since.title} is not in Spark {runs_in.version} of {spec.spark.python}",
                allowed=f"Spark {shown(since.version)} or later for it",
                next_step=f"{since.instead}; or name an environment with a later Spark in `spark.python`",
            )


def _declared(spec: StreamSpec) -> Iterator[tuple[KeyPath, object, Feature]]:
    if spec.trigger.real_time is not None:
        yield ("trigger", "real_time"), f"{spec.trigger.real_time:g} s", Feature.REAL_TIME
    if spec.state.encoding is Encoding.AVRO:
        yield ("state", "encoding"), str(spec.state.encoding), Feature.AVRO_STATE
    if spec.audit.schedule is not None:
        yield ("audit", "schedule"), spec.audit.schedule, PROGRAMS["audit"]
    for setting, value in spec.spark.conf.items():
        if setting in SETTINGS:
            yield ("spark", "conf", setting), value, SETTINGS[setting]
        elif setting == FORMAT and value.strip() != "1":
            yield ("spark", "conf", setting), value, Feature.CHECKPOINT_FORMAT_2


def _in_the_job(spec: StreamSpec) -> Iterator[tuple[KeyPath, object, Feature]]:
    """PySpark's methods in the text of the job. Python itself reports those that the text does not show."""
    try:
        tree = ast.parse(Path(spec.job).read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return  # the rules report a missing file, and `validate` one that is not Python
    called = {node.attr: node.lineno for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for method in METHODS.keys() & called.keys():
        yield ("job",), f"{method} in line {called[method]} of {Path(spec.job).name}", METHODS[method]


def _connectors(spec: StreamSpec, runs_in: SparkEnvironment | None) -> Iterator[Problem]:
    """Connectors are jars of one version of Spark; those that Streamwarden pins are for some versions alone.

    Args:
        runs_in: None: the environment of Streamwarden itself.
    """
    minor = NEWEST if runs_in is None else runs_in.minor
    for name in needed(spec):
        connector = connectors()[name]
        if minor in connector.profiles or brought_along(connector, spec.spark.conf):
            continue
        fits = connector.sparks
        allowed = f"an environment with Spark {fits}"
        step = "name the interpreter of such an environment in `spark.python`; if there is none, run: "
        step += f"{making(max(connector.profiles))} (`streamwarden prepare --{name}` fetches the jars)"
        if runs_in is not None:
            allowed += f", or a {connector.artifact} for Spark {runs_in.version} in spark.jars or spark.jars.packages"
            step += f"; or name the artifact in `spark.conf`: it ends in _{runs_in.scala}:{runs_in.version}"
        yield Problem(
            key=_AT,
            observed=f"Spark {shown(minor)} runs the stream, and the jars of {connector.what} are for Spark {fits}",
            allowed=allowed,
            next_step=step,
        )


def _packages(spec: StreamSpec, runs_in: SparkEnvironment) -> Iterator[Problem]:
    """What the driver imports there beyond the base of Streamwarden."""
    stored = "pyarrow" if spec.in_object_store else None
    for package, purpose in ((spec.sink.PACKAGE, "to write the sink"), (stored, "to read what it has in the store")):
        if package is not None and package not in runs_in.packages:
            yield Problem(
                key=_AT,
                observed=f"the package {package} is not installed in the environment of {spec.spark.python}",
                allowed=f"the extra `{PACKAGES[package]}` of streamwarden there: the driver needs it {purpose}",
                next_step=f"run: {installing(package, str(spec.spark.python))}",
            )
