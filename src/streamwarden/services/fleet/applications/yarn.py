"""The application of a driver on YARN, found by the tag that its driver gives it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from streamwarden.adapters.resource_manager import ResourceManager
from streamwarden.stream.spec import StreamSpec

_ENDED: Final = frozenset({"FINISHED", "FAILED", "KILLED"})


@dataclass(frozen=True, slots=True)
class YarnApplication:
    """Implements `Application`."""

    manager: ResourceManager
    tag: str

    @classmethod
    def of(cls, spec: StreamSpec, driver_id: str, environ: Mapping[str, str], at: str | None) -> Self:
        manager = ResourceManager.of(environ) if at is None else ResourceManager(urls=[at])
        return cls(manager, driver_id)

    def describe(self) -> Mapping[str, Any] | None:
        return self.manager.tagged(self.tag)

    def kill(self) -> bool:
        found = self.describe()
        if found is None or found["state"] in _ENDED:
            return False
        self.manager.kill(found["id"])
        return True
