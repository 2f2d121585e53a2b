"""`make demo`: a stream, its health and an exactly-once drill, in a real Airflow on this machine.

It writes only below var/demo, and renames the folder of the last demo. What it starts listens on 127.0.0.1 alone and
stops with it.
KEEP=0: stop as soon as the drill has a verdict. The exit status is 0 only if the drill passed.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from output import DemoFailed, Output
from steps import Demo, keep_running, new_demo, run_demo, set_aside, stop

from streamwarden.errors import StreamwardenError
from streamwarden.services.local.installation import exclusive

PASSED, FAILED, INTERRUPTED = 0, 1, 130


def main() -> int:
    """Run the demo and return its exit status."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # ignored on purpose, by nohup
            signal.signal(number, _as_interrupt)
    project, output = Path(__file__).resolve().parents[2], Output()
    data = project / "var" / "demo"
    try:
        with exclusive(data.with_name("demo.lock")):
            if aside := set_aside(data, datetime.now(UTC)):
                output.line(f"the last demo's data is in {aside}; `make clean` deletes it")
            return _run(new_demo(project, data, output))
    except StreamwardenError as error:
        output.failure(error)
        return FAILED


def _run(demo: Demo) -> int:
    status: int | None = None
    try:
        status = PASSED if run_demo(demo) else FAILED
        if os.environ.get("KEEP", "1") != "0":
            keep_running(demo)
    except KeyboardInterrupt as interrupt:
        demo.output.line(f"interrupted by {interrupt}")
        status = INTERRUPTED if status is None else status
    except (DemoFailed, StreamwardenError) as error:
        demo.output.failure(error)
        status = FAILED if status is None else status
    finally:
        _stop(demo)
    return FAILED if status is None else status


def _stop(demo: Demo) -> None:
    """Stop everything; a second Ctrl-C kills it at once."""
    started = time.monotonic()
    try:
        stop(demo)
    except KeyboardInterrupt:
        demo.installation.marked.stop(patience=0.0)
    demo.output.line(f"no process of the demo runs any more (it took {time.monotonic() - started:.0f} s)")


def _as_interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt(signal.Signals(number).name)


if __name__ == "__main__":
    sys.exit(main())
