"""A standby of a pool: it warms up for no stream, waits, and becomes the driver of the stream whose launch takes it."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.job_files import has_build
from streamwarden.lifecycle.supervision.pool import RUN_TIME
from streamwarden.services.fleet.standbys.pool import users
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
    return folder, _for_job(session, job, document["settings"])


def _for_job(session: Any, job: Path, settings: Mapping[str, str]) -> Any | None:
    others = sorted(RUN_TIME - settings.keys())
    if has_build(job):
        adapt_session(session, settings, others)
        return session
    adapt_defaults(session, settings, others)
    session.stop()
    return None
