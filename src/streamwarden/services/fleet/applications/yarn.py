"""The application of a driver on YARN, found by the tag that its driver gives it."""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from streamwarden.adapters.jvm.java import find_java
from streamwarden.adapters.jvm.spark_home import QUICK, spark_home
from streamwarden.adapters.resource_manager import ResourceManager, configuration
from streamwarden.errors import ProcessError
from streamwarden.stream.spec import StreamSpec
from streamwarden.waiting import wait_until

GONE_WITHIN: Final = 60.0
"""Seconds until YARN must call an application ended whose master was killed: its node reports each second, and the
ResourceManager unregisters it."""

READ_WITHIN: Final = 60.0
"""Seconds for Hadoop's client to read a log."""

_CLIENT: Final = "org.apache.hadoop.yarn.client.cli.LogsCLI"
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
        """From the node while the application runs, else from the storage to which YARN has moved the log. Hadoop's own
        client reads it, which takes seconds."""
        found, folder = self.identifier(), configuration(self.environ)
        if folder is None:
            raise ProcessError("no Hadoop configuration says where YARN keeps logs", next_step="set HADOOP_CONF_DIR")
        if found is None:
            return ""
        arguments = ["-applicationId", found, "-am", "-1", "-log_files", "stderr,stdout", "-size", str(-most)]
        command = [str(find_java(self.environ) / "bin" / "java"), *QUICK, "-cp", f"{folder}:{spark_home()}/jars/*"]
        done = subprocess.run(
            [*command, _CLIENT, *arguments],
            env={**os.environ, **self.environ},
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
