"""The application of a driver on YARN, found by the tag that its driver gives it."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from streamwarden.adapters.resource_manager import ResourceManager
from streamwarden.errors import ProcessError
from streamwarden.stream.spec import StreamSpec
from streamwarden.waiting import wait_until

GONE_WITHIN: Final = 60.0
"""Seconds until YARN must call an application ended whose master was killed: its node reports each second, and the
ResourceManager unregisters it."""

READ_WITHIN: Final = 60.0
"""Seconds for Hadoop's client to read a log."""

_COMMAND: Final = "yarn"
_ENDED: Final = frozenset({"FINISHED", "FAILED", "KILLED"})


@dataclass(frozen=True, slots=True)
class YarnApplication:
    """Implements `Application`."""

    manager: ResourceManager
    tag: str
    environ: Mapping[str, str]

    @classmethod
    def of(cls, spec: StreamSpec, driver_id: str, environ: Mapping[str, str], at: str | None) -> Self:
        manager = ResourceManager.of(environ) if at is None else ResourceManager(urls=[at])
        return cls(manager, driver_id, environ)

    def describe(self) -> Mapping[str, Any] | None:
        return self.manager.tagged(self.tag)

    def identifier(self) -> str | None:
        found = self.describe()
        return None if found is None else str(found["id"])

    def kill(self) -> bool:
        found = self.describe()
        container = None if found is None else self.manager.master_container(found["id"])
        if found is None or container is None or found["state"] in _ENDED:
            return False
        self.manager.kill_container(container)
        return wait_until(self._has_ended, within=GONE_WITHIN, every=0.2)

    def log(self, most: int) -> str:
        """From the node while the application runs, else from the storage to which YARN has moved it. Only Hadoop's own
        command reads both; it takes some seconds."""
        environment = {**os.environ, **self.environ}
        command = shutil.which(_COMMAND, path=environment.get("PATH"))
        if command is None:
            raise ProcessError(
                f"Hadoop's command {_COMMAND} is not there, and nothing else reads the logs that YARN keeps",
                expected=f"{_COMMAND} in the PATH",
                where="this host",
                next_step=f"install Hadoop's client, or run `{_COMMAND} logs` on another host",
            )
        found = self.identifier()
        if found is None:
            return ""
        arguments = ["logs", "-applicationId", found, "-am", "-1", "-log_files", "stderr,stdout", "-size", str(-most)]
        done = subprocess.run(
            [command, *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=READ_WITHIN,
            check=False,
        )
        return done.stdout if done.returncode == 0 else ""

    def _has_ended(self) -> bool:
        found = self.describe()
        return found is None or found["state"] in _ENDED
