"""Which streams can be in one group: the rules of their files. Pure except that it reads the job's file."""

import contextlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from streamwarden.clusters import manager_of
from streamwarden.errors import JobError
from streamwarden.lifecycle.groups.group import is_of_session
from streamwarden.lifecycle.job_files import has_build
from streamwarden.problems import KeyPath, Problem, show
from streamwarden.stream.spark import DeployMode
from streamwarden.stream.spec import NAME_PATTERN, Standby, StreamSpec


def problems_of_one(spec: StreamSpec) -> list[Problem]:
    """Why a stream cannot be in a group, by its file alone."""
    if spec.group is None:
        return []
    wrong: list[tuple[KeyPath, object, bool, str, str]] = [
        (
            ("group",),
            spec.group,
            NAME_PATTERN.fullmatch(spec.group) is None,
            f"a name that matches {NAME_PATTERN.pattern}",
            "rename the group in the files of all its streams",
        ),
        (("standby",), str(spec.standby), spec.standby is Standby.WARM, _alone("a warm standby"), _LEAVE),
        (
            ("spark", "master"),
            spec.spark.master,
            manager_of(spec.spark.master).has_executors or spec.spark.deploy_mode is DeployMode.CLUSTER,
            "`local[N]` in deploy mode client: the streams of a group share the JVM of one host",
            _LEAVE,
        ),
        (
            ("spark", "connection"),
            spec.spark.connection,
            spec.spark.connection is not None,
            "null: a driver of a group is not started by spark-submit, which Airflow's connection describes",
            "say in the file what the connection says, or remove `group`",
        ),
        (("spark", "python"), spec.spark.python, spec.spark.python is not None, _alone("another Spark"), _LEAVE),
        (
            ("spark", "maven"),
            spec.spark.maven,
            spec.spark.maven is not None,
            "null: an upgrade of the stream's Java classes would need a new JVM, and so a restart of its neighbours",
            _LEAVE,
        ),
        (
            ("trigger", "real_time"),
            spec.trigger.real_time,
            spec.trigger.real_time is not None,
            _alone("real-time mode, whose tasks keep their cores"),
            _LEAVE,
        ),
        (
            ("storage",),
            ", ".join(sorted(spec.in_object_store)),
            bool(spec.in_object_store or spec.storage.connection),
            "paths outside of object stores: a JVM has the access of one store, and each stream needs its own",
            _LEAVE,
        ),
        (
            ("job",),
            Path(spec.job).name,
            _is_script(Path(spec.job)),
            "a job with `build(spark, spec)`: a script owns its Spark, and stops it",
            "write the job as `build(spark, spec)`, or remove `group`; a script may start several queries in one JVM",
        ),
    ]
    return [
        Problem(
            key=key,
            observed=f"{show(value)} in a stream of the group {show(spec.group)}",
            allowed=allowed,
            next_step=step,
        )
        for key, value, fails, allowed, step in wrong
        if fails
    ]


_LEAVE: Final = "remove it, or remove `group`"


def _alone(what: str) -> str:
    return f"a stream of its own for {what}"


def _is_script(job: Path) -> bool:
    with contextlib.suppress(JobError, OSError):  # the rule of `job` reports it
        return not has_build(job)
    return False


def shared_settings(spec: StreamSpec) -> dict[KeyPath, str]:
    """What the JVM has once for all streams of a group: key of the stream's file -> value, for people."""
    spark = spec.spark
    conf: dict[KeyPath, str] = {
        ("spark", "conf", name): value for name, value in spark.conf.items() if not is_of_session(name)
    }
    return {
        ("spark", "master"): spark.master,
        ("spark", "driver_memory"): str(spark.driver_memory),
        ("spark", "py_files"): ", ".join(spark.py_files),
        ("spark", "archives"): ", ".join(spark.archives),
        ("source", "kind"): f"connector {spec.source.CONNECTOR}" if spec.source.CONNECTOR else "",
        ("sink", "kind"): f"connector {spec.sink.CONNECTOR}" if spec.sink.CONNECTOR else "",
        **conf,
    }


def problems_across(specs: Iterable[StreamSpec]) -> dict[str, list[Problem]]:
    """Streams whose settings of the JVM are not those of their group, by stream. What most streams of the group have
    is right (of two values equally often, the one of the first stream by name), so that a new file breaks no other."""
    groups: dict[str, list[StreamSpec]] = {}
    for spec in sorted(specs, key=lambda spec: spec.name):
        if spec.group is not None:
            groups.setdefault(spec.group, []).append(spec)
    found: dict[str, list[Problem]] = {}
    for members in groups.values():
        for name, problems in _of_group(members).items():
            found.setdefault(name, []).extend(problems)
    return found


def _of_group(members: Sequence[StreamSpec]) -> dict[str, list[Problem]]:
    """Connectors count together, whether a source or a sink needs them."""
    values = {spec.name: _jars_together(shared_settings(spec)) for spec in members}
    found: dict[str, list[Problem]] = {}
    for key in sorted({key for settings in values.values() for key in settings}, key=str):
        counted = Counter(values[spec.name].get(key, "") for spec in members)
        usual = counted.most_common(1)[0][0]  # of equal counts the first that was met
        one = next(spec for spec in members if values[spec.name].get(key, "") == usual)
        for spec in members:
            if (value := values[spec.name].get(key, "")) != usual:
                found.setdefault(spec.name, []).append(_unequal(key, value, usual, spec, one))
    return found


def _jars_together(settings: Mapping[KeyPath, str]) -> dict[KeyPath, str]:
    sides = (("source", "kind"), ("sink", "kind"))
    jars = sorted({settings[side] for side in sides if settings[side]})
    return {**{key: value for key, value in settings.items() if key not in sides}, ("group",): ", ".join(jars)}


def _unequal(key: KeyPath, value: str, usual: str, spec: StreamSpec, one: StreamSpec) -> Problem:
    what = "the jars of " if key == ("group",) else ""
    here, there = (show(text) if text else "nothing" for text in (value, usual))
    return Problem(
        key=key,
        observed=f"{what}{here}, and {there} in the stream {one.name} of the same group {spec.group}",
        allowed="equal settings of the JVM in all streams of a group",
        next_step=f"give both the same value, or give {spec.name} another group",
    )
