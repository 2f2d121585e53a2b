"""What a launch has in common with the standbys of a pool, and what differs."""

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from streamwarden.clusters import manager_of
from streamwarden.errors import ConfigError
from streamwarden.lifecycle.supervision.pool import pool_fit, run_time_settings
from streamwarden.services.fleet.launching.deployed_code import shipped_code_of
from streamwarden.services.fleet.launching.launch import FOLDER_VARIABLE, settings_of
from streamwarden.services.fleet.standbys.pool import PoolStart
from streamwarden.stream.spark import DeployMode
from streamwarden.stream.spec import StreamSpec

_ANY: Final = Path("/standby")
"""The folder of a driver, in settings that are compared."""


def pool_size(spec: StreamSpec) -> int:
    """How many standbys wait for streams like this one; 0: it cannot use any, or its project has no pool. A file that
    is broken means no pool: `streamwarden validate` reports it."""
    here = spec.spark.deploy_mode is DeployMode.CLIENT and not manager_of(spec.spark.master).has_executors
    if not here or not spec.project:
        return 0
    from streamwarden.config.project.standbys import (
        load_standbys,  # pydantic: a process that only observes does not import it
    )

    with contextlib.suppress(ConfigError):
        return load_standbys(Path(spec.project)).count
    return 0


def pool_start(
    spec: StreamSpec, data: Path, environment: Mapping[str, str], command: Sequence[str] | None
) -> PoolStart | None:
    """None: the stream has no pool. Raises ProcessError, ConfigError as a launch does."""
    size = pool_size(spec)
    if not size:
        return None
    settings = settings_of(spec, _ANY, data, environment)
    own = {name: value for name, value in environment.items() if name != FOLDER_VARIABLE}
    return PoolStart(
        fit=pool_fit(settings, shipped_code_of(spec), own, command),
        settings=run_time_settings(settings),
        size=size,
        command=command,
    )
