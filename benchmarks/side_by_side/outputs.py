"""Rows as a reader that must not see a row twice reads them, with the time at which each could be read."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.side_by_side.contender import Seen
from confluent_kafka import Consumer, TopicPartition

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.formats.layout import SINK_LOG, compactible_ids, compactible_name
from streamwarden.checkpoint.formats.sink import read_entry
from streamwarden.sinks.files.data import PARQUET, read_files

PAUSE = 0.02
"""Seconds between two looks."""


class TopicOutput:
    """The committed records of a topic, each a JSON object."""

    def __init__(self, servers: str, topic: str, partitions: int) -> None:
        settings = {"bootstrap.servers": servers, "group.id": f"reader-{topic}", "isolation.level": "read_committed"}
        self._consumer = Consumer({**settings, "enable.auto.commit": False, "log_level": 0})
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])

    def new(self) -> Iterator[Seen]:
        messages = self._consumer.consume(10_000, PAUSE)
        at = time.time()
        for message in messages:
            if message.error() is None:
                yield at, json.loads(message.value() or b"")

    def close(self) -> None:
        self._consumer.close()


class ParquetOutput:
    """The files that the manifest of Spark's parquet sink names; a row can be read from the time of its entry."""

    def __init__(self, folder: Path) -> None:
        self._root = open_path(folder)
        self._manifest = folder / SINK_LOG
        self._entries: set[str] = set()
        self._files: set[str] = set()

    def new(self) -> Iterator[Seen]:
        time.sleep(PAUSE)
        names = [path.name for path in self._manifest.iterdir()] if self._manifest.is_dir() else []
        for batch, compact in compactible_ids(names):
            name = compactible_name(batch, compact)
            if name not in self._entries:
                self._entries.add(name)
                yield from self._rows(batch, compact, (self._manifest / name).stat().st_mtime)

    def _rows(self, batch: int, compact: bool, at: float) -> Iterator[Seen]:
        entry = read_entry(self._root / SINK_LOG, batch, compact)
        fresh = [file.path for file in entry.files if file.path not in self._files]
        self._files.update(fresh)
        for part in read_files(self._root, fresh, PARQUET).parts:
            for row in part.table.to_pylist():
                yield at, row

    def close(self) -> None:
        """Nothing is open."""
