"""What a launch has in common with the standbys of a pool, and what differs."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from streamwarden.clusters import manager_of
from streamwarden.errors import ConfigError
from streamwarden.lifecycle.forks.places import SUFFIX, is_fork
from streamwarden.lifecycle.supervision.pool import pool_fit, run_time_settings
from streamwarden.lifecycle.supervision.standby import can_wait
from streamwarden.services.fleet.launching.deployed_code import shipped_code_of
from streamwarden.services.fleet.launching.launch import FOLDER_VARIABLE, settings_of, working_folder
from streamwarden.services.fleet.standbys.pool import PoolStart
from streamwarden.stream.spark import DeployMode
from streamwarden.stream.spec import Standby, StreamSpec, TriggerSpec

if TYPE_CHECKING:
    from streamwarden.config.project.standbys import Standbys

_ANY: Final = Path("/standby")
"""The folder of a driver, in settings that are compared."""

_WORK: Final = "/work"
"""The working folder of a fork, in settings and variables that are compared."""


def pool_sizes(spec: StreamSpec) -> Standbys:
    """How many standbys are to wait for drivers like this one; none if it cannot use any. A file that is broken means
    no pool: `streamwarden validate` reports it."""
    from streamwarden.config.project.standbys import (
        Standbys,  # pydantic: a process that only observes does not import it
        load_standbys,
    )

    here = spec.spark.deploy_mode is DeployMode.CLIENT and not manager_of(spec.spark.master).has_executors
    with contextlib.suppress(ConfigError):
        return load_standbys(Path(spec.project)) if here and spec.project else Standbys()
    return Standbys()


def pool_start(
    spec: StreamSpec, data: Path, environment: Mapping[str, str], command: Sequence[str] | None
) -> PoolStart | None:
    """None: there is no pool for the stream. Raises ProcessError, ConfigError as a launch does."""
    sizes, work = pool_sizes(spec), _own_folder(spec, data)
    size = sizes.count if work is None else sizes.drills
    if not size:
        return None
    settings = settings_of(spec, _ANY, data, environment)
    variables = {name: value for name, value in environment.items() if name != FOLDER_VARIABLE}
    compared = [_apart(values, work) for values in (settings, variables)]
    return PoolStart(
        fit=pool_fit(compared[0], shipped_code_of(spec), compared[1], command),
        settings=run_time_settings(settings),
        work=work,
        size=size,
        only_first=work is not None and not sizes.count,
    )


def _own_folder(spec: StreamSpec, data: Path) -> Path | None:
    """The folder in which a fork works alone; None: it works in the data folder, as a stream does."""
    work = working_folder(spec, data)
    return work if is_fork(spec.name) and work != data else None


def _apart(values: Mapping[str, str], work: Path | None) -> dict[str, str]:
    """The values without the path of the working folder, which a standby takes over."""
    return {key: value if work is None else value.replace(str(work), _WORK) for key, value in values.items()}


def pool_document(spec: StreamSpec, command: Sequence[str] | None) -> dict[str, Any] | None:
    """What the driver of a stream needs to keep its pool, `pool.json` of its folder; None: it keeps none."""
    sizes = pool_sizes(spec)
    if not can_wait(spec) or is_fork(spec.name) or not (sizes.count or sizes.drills):
        return None
    return {**asdict(sizes), "command": None if command is None else list(command)}


def of_forks(spec: StreamSpec, work: Path) -> StreamSpec:
    """A stream as its forks are started, which work in `work`. Only what its standbys depend on is that of a fork."""
    return replace(
        spec,
        name=f"{spec.name}{SUFFIX}",
        standby=Standby.NONE,
        trigger=TriggerSpec(processing_time=None, available_now=True),
        data=str(work),
        data_url="",
    )
