"""A copy of a stream's topic, for a fork whose topic is to be broken. Pure.

Other forks read their origin's topic where it is, since reading changes nothing. A fault that changes a topic needs a
copy with the same records that no other stream reads.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

Headers = Iterable[tuple[str, bytes | None]]


class Feed(StrEnum):
    """The input mode of a fork. A fork with its own topic runs until it is asked to stop, as its origin
    does."""

    ORIGIN = "origin"  # the origin's own input, as much as there is when the fork is made
    COPY = "copy"  # the fork's own topic with the same records
    GROWING = "growing"  # the same, but the drill sends the second half of each partition later


class Digest:
    """SHA-256 over a sequence of records (key, value, timestamp and headers of each), and their number."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self.count = 0

    def add(self, key: bytes | None, value: bytes | None, timestamp: int, headers: Headers) -> None:
        """Args: timestamp: Unix milliseconds."""
        parts = [key, value, str(timestamp).encode()]
        for name, content in headers:
            parts += [name.encode(), content]
        for part in (str(len(parts)).encode(), *parts):  # each with its length: no two records give the same bytes
            self._hash.update(b"-;" if part is None else b"%d;%s" % (len(part), part))
        self.count += 1

    def text(self) -> str:
        return self._hash.hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedPartition:
    """One partition of the origin's topic: its offsets from `start` up to `cut` are copied, those up to `end` are held
    back.

    Args:
        records, held: how many records these are: a compacted topic has fewer than offsets.
        digest, held_digest: over them, in order.
    """

    partition: int
    start: int
    cut: int
    end: int
    records: int
    held: int
    digest: str
    held_digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedTopic:
    """The content of a fork's own topic. It was read back and was equal before anything was broken.

    Args:
        origin: the topic that was copied; topic: the copy.
        partitions: by number; the records of partition p that are held back go to the new partition P + p.
    """

    origin: str
    topic: str
    partitions: tuple[CopiedPartition, ...]

    @property
    def records(self) -> int:
        """All records, including those that are held back."""
        return sum(partition.records + partition.held for partition in self.partitions)

    @property
    def held(self) -> int:
        return sum(partition.held for partition in self.partitions)

    def source_of(self, partition: int) -> tuple[int, int, int]:
        """The partition of the origin's topic, and the offsets from and up to which a partition of the copy has its
        records, in order."""
        number, added = partition % len(self.partitions), partition >= len(self.partitions)
        copied = self.partitions[number]
        start, end = (copied.cut, copied.end) if added else (copied.start, copied.cut)
        return copied.partition, start, end

    @property
    def ranges_digest(self) -> str:
        """SHA-256 over the ranges of the origin's topic."""
        ranges = "".join(
            f"{self.origin}\t{partition.partition}\t{partition.start}\t{partition.end}\n"
            for partition in self.partitions
        )
        return hashlib.sha256(ranges.encode()).hexdigest()


def cut_at(start: int, end: int, feed: Feed) -> int:
    """The offset from which the records of a partition are held back."""
    return start + (end - start + 1) // 2 if feed is Feed.GROWING else end
