"""A stream that copies numbers: every number once in its input, so every number once in its output."""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.formats.logs import log_position
from streamwarden.checkpoint.formats.uris import file_name
from streamwarden.sinks.files.manifest import read_manifest

ROWS: Final = 20
"""Numbers in a file of input, which is a batch."""

_JOB: Final = """
from streamwarden.spark.sources import read_rows


def build(spark, spec):
    return read_rows(spark, spec, "id BIGINT")
"""


class Ids:
    """A stream of a project, and its producer.

    Args:
        more: entries of the stream's file, `spark` among them.
    """

    def __init__(self, project: Path, data: Path, *, name: str, **more: Any) -> None:
        self.data, self.name = data, name
        self.input, self.output = data / "input" / name, data / "output" / name
        self.published = 0
        for folder in (project / "config/streams", project / "spark_jobs", self.input):
            folder.mkdir(parents=True, exist_ok=True)
        (project / "spark_jobs/ids.py").write_text(_JOB)
        document = {
            "name": name,
            "job": "spark_jobs/ids.py",
            "checkpoint": f"checkpoints/{name}",
            "source": {"kind": "files", "path": f"input/{name}", "format": "json", "max_files_per_trigger": 1},
            "sink": {"kind": "parquet", "path": f"output/{name}"},
            "trigger": {"processing_time": "0.5 seconds"},
            **more,
        }
        (project / f"config/streams/{name}.yaml").write_text(json.dumps(document))

    @property
    def expected(self) -> set[int]:
        """Every number that was published."""
        return set(range(self.published * ROWS))

    @contextmanager
    def producing(self, every: float = 0.5) -> Iterator[None]:
        """A file appears every half second meanwhile."""
        over = threading.Event()

        def produce() -> None:
            while not over.wait(every):
                self.publish()

        thread = threading.Thread(target=produce)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join(30)

    def publish(self) -> None:
        number, self.published = self.published, self.published + 1
        part = self.input / f".{number:06d}"
        part.write_text("".join(json.dumps({"id": number * ROWS + row}) + "\n" for row in range(ROWS)))
        os.utime(part, (1e9 + number, 1e9 + number))
        part.rename(part.with_name(f"{number:06d}.json"))

    def delivered(self) -> Counter[int]:
        """How often each number is in the output, by the files that its manifest names; the driver may have the folder
        under another path."""
        manifest = read_manifest(open_path(self.output), None, 0)
        assert manifest is not None
        assert not manifest.gaps
        files = [self.output / file_name(file) for file in manifest.files]
        return Counter(number for file in files for number in pq.read_table(file)["id"].to_pylist())

    def committed(self) -> int:
        """The newest committed batch; -1: none."""
        found = log_position(open_path(self.data / "checkpoints" / self.name)).committed
        return -1 if found is None else found
