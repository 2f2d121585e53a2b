"""A fork: a committed batch of a stream opened under a new checkpoint, with its own input and output. Pure.

This module defines the fork and its bounded input, `spec` its StreamSpec, `places` where it is kept, and `plan` what is
copied from the origin.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from streamwarden.checkpoint.topics import TopicRange
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.forks.topic_copy import CopiedTopic
from streamwarden.stream.spec import StreamSpec


@dataclass(frozen=True, slots=True)
class InputFile:
    """A whole input file: path below the source's folder, and bytes."""

    name: str
    size: int

    @property
    def seen_as(self) -> str:
        """The name that Spark compares under `fileNameOnly`."""
        return self.name.rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedInput:
    """The bounded input of a fork. See `Fork` for the fields."""

    what: str
    total: int
    unseen: int
    longest_queue: int
    digest: str
    copied: CopiedTopic | None = None
    ranges: tuple[TopicRange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """A finished fork.

    Args:
        spec: the forked stream: reads the linked input, ends when it has read it (`availableNow`); ends after a last
            batch if its source has no end.
        origin: name of the stream that it was made from.
        batch: committed batch of the origin that it starts after; None: it starts from nothing.
        query_id: the fork's; None for a fork from nothing (Spark creates one when it starts).
        inputs: files, or records of a topic, in its bounded input; unseen: those that it has yet to read. Of a source
            without an end, both are the batches that it has yet to run. None: a script does not show what it reads.
        what: what is counted, as one of them is called.
        longest_queue: the most of these that one source has: each source has its own limit.
        batches_left: batches that these make; None if the source's limits do not say.
        input_digest: SHA-256 over the sorted list of names and sizes of the whole input, or of a topic's ranges.
        copied: what the fork's own topic was filled with; None: it reads its origin's input.
        ranges: of its origin's topic, what it has yet to read; empty for files and for a copied topic.
    """

    spec: StreamSpec
    origin: str
    batch: int | None
    query_id: str | None
    inputs: int | None
    unseen: int | None
    longest_queue: int
    batches_left: int | None
    input_digest: str
    what: str = "file"
    copied: CopiedTopic | None = None
    ranges: tuple[TopicRange, ...] = ()


def require_distinct_names(files: Iterable[InputFile], source: str) -> None:
    """Raises CheckpointError if two files share a name: a fork distinguishes seen from unseen files by name alone."""
    by_name: dict[str, InputFile] = {}
    for file in files:
        other = by_name.setdefault(file.seen_as, file)
        if other is not file:
            raise CheckpointError(
                f"two input files are called {file.seen_as}: {other.name} and {file.name}",
                expected="distinct file names, by which a fork distinguishes seen files from unseen ones",
                where=source,
                next_step="give each input file a unique name",
            )


def input_digest(files: Iterable[InputFile]) -> str:
    """SHA-256 over the sorted list of names and sizes."""
    text = "".join(f"{file.name}\t{file.size}\n" for file in sorted(files, key=lambda file: file.name))
    return hashlib.sha256(text.encode()).hexdigest()
