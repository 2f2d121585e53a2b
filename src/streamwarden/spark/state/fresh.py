"""Begins a query anew in a folder of its own, to see the form of its state: operators, variables, fields, settings.

Spark writes all of that down when it plans the first batch, and gives each operator its stores when it executes it.
"""

from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from streamwarden.checkpoint.formats.layout import COMMITS
from streamwarden.checkpoint.formats.uris import to_hadoop
from streamwarden.spark.internals.readers_writers import frame_of
from streamwarden.stream.spec import StreamSpec
from streamwarden.waiting import wait_until

WITHIN: Final = 60.0
"""Seconds for the first batch: it is as large as any of the stream's, and need not come to its end."""


def begin_anew(built: Any, spec: StreamSpec, checkpoint: str) -> None:
    """Start what `build` returned in `checkpoint`, without its sink, and stop it after its first batch.

    Whatever Spark raises is left to the run on the old checkpoint, which then raises it, too.
    """
    with suppress(Exception):
        query = (
            frame_of(built)
            .writeStream.format("noop")
            .outputMode(spec.sink.mode.value)
            .option("checkpointLocation", to_hadoop(checkpoint))
            .start()
        )
        try:
            commit = Path(checkpoint) / COMMITS / "0"
            wait_until(lambda: commit.exists() or not query.isActive, within=WITHIN, every=0.05)
        finally:
            query.stop()
