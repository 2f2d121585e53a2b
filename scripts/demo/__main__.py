"""`make demo`: a stream, its health and an exactly-once drill, in a real Airflow on this machine.

Everything it writes is below var/demo, everything it starts listens on 127.0.0.1 alone and ends with it.
KEEP=0: stop as soon as the drill's verdict is there. Exit status 0 only if the drill passed.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from ground import DemoFailed, Ground
from local_airflow import LocalAirflow
from story import Story
from voice import Voice

from streamwarden.errors import StreamwardenError

PASSED, FAILED, INTERRUPTED = 0, 1, 130


def main() -> int:
    """Run the demo and return its exit status."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup means it
            signal.signal(number, _as_interrupt)
    voice = Voice()
    ground = Ground(Path(__file__).resolve().parents[2])
    keep = os.environ.get("KEEP", "1") != "0"
    try:
        ground.claim()
    except DemoFailed as error:
        voice.failure(error)
        return FAILED
    story = Story(ground, LocalAirflow(ground), voice)
    status = FAILED
    try:
        passed = story.tell()
        status = PASSED if passed else FAILED
        if keep:
            story.stay()
    except KeyboardInterrupt as interrupt:
        voice.say(f"ended by {interrupt}")
        status = status if story.told else INTERRUPTED
    except (DemoFailed, StreamwardenError) as error:
        voice.failure(error)
    finally:
        _leave(story, voice)
    return status


def _leave(story: Story, voice: Voice) -> None:
    """End everything; another Ctrl-C ends it the hard way."""
    started = time.monotonic()
    try:
        story.end()
    except KeyboardInterrupt:
        story.end_hard()
    voice.say(f"nothing of the demo is running any more (it took {time.monotonic() - started:.0f} s)")


def _as_interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt(signal.Signals(number).name)


if __name__ == "__main__":
    sys.exit(main())
