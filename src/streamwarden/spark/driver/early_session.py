"""Opens the session of a driver while another thread imports the rest of its program.

Python needs most of a second for the driver's modules and the JVM more than that for a session, and neither needs the
other. This module itself is to be imported fast.
"""

import contextlib
import json
import threading
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from streamwarden.errors import JobError
from streamwarden.lifecycle.job_files import has_build
from streamwarden.spark.internals.skip_numpy import without_numpy

_PROGRAM: Final = "streamwarden.spark.programs.driver"


def open_early(folder: Path) -> Any | None:
    """The session of the driver of this folder. None: the job opens it, or it cannot be opened; the driver then tries
    again, and reports why."""
    if not opens_itself(_spec(folder)):
        return None
    importing = threading.Thread(target=_import, name="streamwarden imports", daemon=True)
    importing.start()
    without_numpy()
    try:
        return SparkSession.builder.getOrCreate()
    except Exception:
        return None
    finally:
        importing.join()


def opens_itself(spec: Mapping[str, Any]) -> bool:
    """Whether the driver of this stream opens a session without the job's doing, on this host's own cores."""
    if not str((spec.get("spark") or {}).get("master", "")).startswith("local"):
        return False
    try:
        return has_build(Path(str(spec["job"])))
    except (JobError, KeyError, OSError):  # the driver reports it
        return False


def _spec(folder: Path) -> dict[str, Any]:
    """What people may read of the driver's stream; see `driver_folder`, whose import takes longer."""
    with contextlib.suppress(OSError, ValueError):
        return dict(json.loads((folder / "spec.json").read_text(encoding="utf-8")))
    return {}


def _import() -> None:
    with contextlib.suppress(ImportError):  # the program's own import reports it
        import_module(_PROGRAM)
