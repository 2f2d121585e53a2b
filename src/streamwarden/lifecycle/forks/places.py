"""Where a fork is kept: on this host, or partly in the object store or the HDFS of its origin. Pure.

The input of a fork is always on this host, because only there a copy keeps the age of its file. Spark orders its input
by age, and a job may use the age.
"""

import hashlib
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final, Self

from streamwarden.checkpoint.filesystem import join
from streamwarden.errors import CheckpointError
from streamwarden.stream.spec import STORED, StreamSpec

SCHEMA: Final = "streamwarden_fork_"
"""The prefix of the schema for a fork's table, or of its topics; the rest is a digest of the fork's folder."""

_CLIENT: Final = re.compile(r"^s3[an]?://", re.IGNORECASE)
"""What the URL of an object store begins with: its clients have different names for it."""

SUFFIX: Final = "__fork"
"""What the name of a fork adds to that of its origin, before the digest of its drill run."""


def is_fork(stream: str) -> bool:
    """Whether the name is a fork's."""
    return SUFFIX in stream


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Absolute local folders of a fork, or URLs, the schema of its table or its topic, and its own input topic, if it
    has one; the forked spec names them.

    `stored`: those that are in an object store or in HDFS.
    """

    checkpoint: str
    output: str
    input: str
    quarantine: str
    schema: str

    @classmethod
    def under(cls, into: str, at: str | None = None, stored: Collection[str] = ()) -> Self:
        """The places of a fork.

        Args:
            into: folder of this host.
            at: URL of a folder for the `stored` parts except the input (as `StreamSpec.stored` names them); None: all
                of it is on this host.
        """

        def place(part: str, name: str) -> str:
            return join(at if at is not None and part in stored else into, name)

        return cls(
            checkpoint=place("checkpoint", "checkpoint"),
            output=place("sink", "output"),
            input=join(into, "input"),
            quarantine=place("quarantine", "quarantine"),
            schema=f"{SCHEMA}{hashlib.sha256(into.encode()).hexdigest()[:24]}",
        )

    @property
    def source(self) -> str:
        return f"{self.schema}_source"

    @property
    def stored(self) -> tuple[str, ...]:
        places = (self.checkpoint, self.output, self.quarantine)
        return tuple(place for place in places if STORED.match(place))


def places_of(spec: StreamSpec, into: str, at: str | None) -> Places:
    """The places of a fork of the stream; see `Places.under`. Raises what `require_place` raises."""
    if at is not None:
        require_place(spec, at)
    return Places.under(into, at, spec.stored)


def require_place(spec: StreamSpec, at: str, others: Iterable[StreamSpec] = ()) -> None:
    """Raises CheckpointError if no fork of the stream can be in the folder `at`.

    Args:
        others: further streams whose places it may not be in.
    """
    where = spec.file or spec.name
    if not spec.stored & {"checkpoint", "sink"}:
        raise CheckpointError(
            f"a fork of {spec.name} cannot be at {at}: the stream has neither its checkpoint nor its output in an "
            "object store or in HDFS",
            expected="a checkpoint or an output on s3a:// or hdfs://, so that the fork can be in the same storage",
            where=where,
            next_step="remove `fork.at`: the fork is then on this host, as its origin is",
        )
    for stream in (spec, *others):
        for place in (stream.checkpoint, stream.sink.path, stream.source.path, stream.quarantine):
            if place is not None and _inside(at, place):
                raise CheckpointError(
                    f"a fork of {spec.name} cannot be at {at}: that is in {place} of the stream {stream.name}",
                    expected="a folder outside of every checkpoint, input, output and quarantine",
                    where=where,
                    next_step="set `fork.at` to a separate folder, such as s3a://BUCKET/drills or hdfs://HOST/drills",
                )


def _inside(path: str, folder: str) -> bool:
    path, folder = (_CLIENT.sub("s3://", place).rstrip("/") + "/" for place in (path, folder))
    return path.startswith(folder)
