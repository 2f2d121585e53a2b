"""Reads docker-compose.yaml. What its services start runs in tests/integration/test_compose.py."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from streamwarden.adapters.connections import PREFIX, Connection, connection
from support.airflow.harness import REPOSITORY


def interpolated(text: str) -> str:
    """As Compose does it where none of the variables is set."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)


@dataclass(frozen=True)
class Deployment:
    """The file's content."""

    compose: dict[str, Any]

    @classmethod
    def read(cls, name: str = "docker-compose.yaml") -> Deployment:
        return cls(yaml.safe_load((REPOSITORY / name).read_text()))

    def changed(self, change: Callable[[dict[str, Any]], object]) -> Deployment:
        """A copy with `change` done to it."""
        other = copy.deepcopy(self.compose)
        change(other["services"])
        return replace(self, compose=other)

    @property
    def services(self) -> dict[str, dict[str, Any]]:
        services: dict[str, dict[str, Any]] = self.compose["services"]
        return services

    def environment(self, service: str) -> dict[str, str]:
        return {key: interpolated(value) for key, value in self.services[service].get("environment", {}).items()}

    def command(self, service: str) -> list[str]:
        return [interpolated(word) for word in self.services[service].get("command", ())]

    def option(self, service: str, name: str) -> str:
        """The word after the option `name`; empty if it is not there."""
        words = self.command(service)
        return words[words.index(name) + 1] if name in words[:-1] else ""

    def connections(self) -> dict[str, Connection]:
        """By name in small letters."""
        environment = self.environment("scheduler")
        names = [key.removeprefix(PREFIX).lower() for key in environment if key.startswith(PREFIX)]
        return {name: connection(name, environment) for name in names}


@cache
def airflow_options() -> dict[str, Any]:
    """Section -> option -> its description, of the installed Airflow, by names in small letters; it is not imported."""
    found = find_spec("airflow")
    assert found is not None
    assert found.origin is not None
    text = (Path(found.origin).parent / "config_templates" / "config.yml").read_text()
    return {name: section["options"] for name, section in yaml.load(text, yaml.CSafeLoader).items()}
