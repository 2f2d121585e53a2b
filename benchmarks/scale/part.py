"""What a part of the benchmark declares, and what its parts share."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Sizes:
    """Args:
    streams: sizes of the fleet.
    rows: batches in the store of a thousand streams; fewer streams have as many each.
    seconds: of each measurement that lasts.
    """

    streams: Sequence[int]
    rows: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Part:
    """Args:
    head: of the Markdown table; measure: its rows.
    """

    name: str
    goal: str
    head: str
    measure: Callable[[Sizes], Iterator[str]]


def child(script: Path, *arguments: object, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """What the script prints last, as JSON: each size is measured in a process of its own."""
    command = [sys.executable, str(script), *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=environment)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def peak_memory() -> float:
    """Bytes of this process at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


def verdict(value: float, goal: float, streams: int) -> str:
    """Whether a goal for a thousand streams is met."""
    return "" if streams != 1000 else "met" if value <= goal else f"missed, {value / goal:.1f} times"
