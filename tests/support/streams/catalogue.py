"""The streams, drills and jobs that the repository ships. A user may add others to the same folders, good or broken."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path
from typing import Final

from streamwarden.config.loading import load_drill, load_stream
from streamwarden.drills.spec import DrillSpec
from streamwarden.stream.spec import StreamSpec

REPOSITORY: Final = Path(__file__).resolve().parents[3]

STREAMS: Final = (
    "aircraft_rotations",
    "device_heartbeats",
    "device_heartbeats_event_time",
    "event_dedup",
    "event_windows",
    "flight_dedup",
    "flight_dedup_unbounded",
    "flight_departures",
    "flight_weather",
    "state_evolution",
    "user_action_counts",
    "user_sessions",
    "windowed_values",
)
DRILLS: Final = (
    "changelog_flipped",
    "changelog_lost",
    "changelog_truncated",
    "clock_step",
    "commit_lost",
    "commit_truncated",
    "controlled_restart",
    "freeze_driver",
    "input_doubled",
    "input_gone",
    "input_late",
    "input_out_of_order",
    "kill_after_files",
    "kill_after_manifest",
    "kill_after_offsets",
    "kill_after_state",
    "kill_driver",
    "kill_windowed_values",
    "metadata_lost",
    "offsets_truncated",
    "restore_savepoint",
    "sink_failing",
    "sink_slow",
    "snapshot_flipped",
    "snapshot_lost",
    "snapshot_truncated",
    "state_lost",
)


def stream(name: str, data: Path = REPOSITORY / "var") -> StreamSpec:
    """One stream of the catalogue. Raises ConfigError if its file is broken."""
    return load_stream(REPOSITORY / "config/streams" / f"{name}.yaml", project=REPOSITORY, data=data)


def streams(data: Path = REPOSITORY / "var") -> dict[str, StreamSpec]:
    """All streams of the catalogue, by name."""
    return {name: stream(name, data) for name in STREAMS}


def drills() -> dict[str, DrillSpec]:
    """All drills of the catalogue, by name."""
    return {name: _drill(name) for name in DRILLS}


@cache
def _drill(name: str) -> DrillSpec:
    return load_drill(REPOSITORY / "config/drills" / f"{name}.yaml", project=REPOSITORY)


def jobs() -> list[Path]:
    """The jobs of the catalogue's streams, each once."""
    return sorted({Path(spec.job) for spec in streams().values()})


def copy_project(target: Path) -> None:
    """Copy the catalogue's configuration and the jobs to `target`, without what a user added to `config/`."""
    shutil.copytree(REPOSITORY / "spark_jobs", target / "spark_jobs", ignore=shutil.ignore_patterns("__pycache__"))
    for kind, names in (("streams", STREAMS), ("drills", DRILLS)):
        (target / "config" / kind).mkdir(parents=True)
        for name in names:
            shutil.copy(REPOSITORY / "config" / kind / f"{name}.yaml", target / "config" / kind)
    shutil.copy(REPOSITORY / "config/thresholds.yaml", target / "config")
