"""The processes of a driver: which one everybody else takes for it, and in which JVM it works."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streamwarden.adapters import processes
from streamwarden.lifecycle.driver import ProcessIdentity
from streamwarden.services.fleet.groups.hosts import count_members
from streamwarden.spark.internals.jvm import is_refusal
from streamwarden.units import Seconds
from streamwarden.waiting import wait_until

DYING: Final[Seconds] = 5.0
"""Seconds that a JVM which refuses calls has to end; until then it is not known whether it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """The processes of a driver.

    Args:
        process: the one with which the driver lives and dies: the JVM, or in a group this Python process.
        jvm: where its queries run.
        group: its name; None: the JVM is this driver's alone, and this process's parent.
        host: the folder of the group's host.
    """

    process: ProcessIdentity
    jvm: ProcessIdentity
    group: str | None = None
    host: Path | None = None

    @classmethod
    def alone(cls) -> Engine | None:
        """Of a driver that spark-submit started; None: the JVM has ended meanwhile."""
        jvm = processes.identity(os.getppid())
        return None if jvm is None else cls(process=jvm, jvm=jvm)

    @classmethod
    def of_group(cls, jvm: ProcessIdentity, group: str, host: Path) -> Engine:
        """Of a driver that was let into the JVM of a group."""
        own = processes.identity(os.getpid())
        assert own is not None
        return cls(process=own, jvm=jvm, group=group, host=host)

    def is_gone(self) -> bool:
        """Whether the JVM has ended."""
        return os.getppid() != self.jvm.pid if self.group is None else processes.is_alive(self.jvm) is False

    def is_going(self, error: BaseException | None, *, stopped: bool) -> bool:
        """Whether the JVM of the group has ended, or is ending: then what else failed is a consequence.

        Args:
            error: what the job failed of; stopped: its SparkContext has ended.
        """
        within = DYING if is_refusal(error) or stopped else 0.0
        return self.group is not None and wait_until(self.is_gone, within=within, every=0.05)

    def resident_bytes(self) -> int | None:
        """Resident memory of the driver's processes; in a group with its share of the JVM and of what that started."""
        own = processes.resident_bytes(self.process)
        if self.host is None or own is None:
            return own
        return own + (processes.resident_bytes(self.jvm) or 0) // count_members(self.host)
