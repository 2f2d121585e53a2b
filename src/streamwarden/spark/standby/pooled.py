"""A standby of a pool: it warms up for no stream, waits, and becomes the driver of the stream whose launch takes it."""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.job_files import has_build
from streamwarden.lifecycle.supervision.pool import RUN_TIME
from streamwarden.services.fleet.standbys.pool import users
from streamwarden.services.workspace import DATA_VARIABLE, LOCAL_DATA_VARIABLE
from streamwarden.spark.internals.jvm import adapt_defaults, adapt_session, collect_garbage, jvm_clock
from streamwarden.spark.standby.standing_by import await_promotion, rehearsed


def stand_by(home: Path) -> tuple[Path, Any | None]:
    """Warm up, and return when a launch has taken this process: the folder of the driver, and the session for its job
    (None for a script, which opens its own). Ends the process if that is not to be."""
    session = rehearsed(home / files.TEMPORARY / "rehearsal")
    collect_garbage(session)
    await_promotion(
        home,
        promoted=lambda: (home / files.DRIVER).exists(),
        wanted=lambda: bool(users(home, time.time())),
        ask=jvm_clock(),
    )
    document = files.read_document(home / files.DRIVER) or {}
    folder = Path(document["folder"])
    job = Path((files.read_spec(folder) or {})["job"])
    places = _places(document["work"])
    os.environ.update(places)
    return folder, _for_job(session, job, document["settings"], places)


def _places(work: str | None) -> dict[str, str]:
    """The variables that name the working folder of a fork; none for a stream, whose folder they have named before."""
    return {} if work is None else dict.fromkeys((DATA_VARIABLE, LOCAL_DATA_VARIABLE), work)


def _for_job(session: Any, job: Path, settings: Mapping[str, str], places: Mapping[str, str]) -> Any | None:
    others = sorted(RUN_TIME - settings.keys())
    if has_build(job):
        adapt_session(session, settings, others)
        session.sparkContext.environment.update(places)
        return session
    in_workers = {f"spark.executorEnv.{name}": value for name, value in places.items()}
    adapt_defaults(session, {**settings, **in_workers}, others)
    session.stop()
    return None
