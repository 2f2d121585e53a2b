"""A project folder in a temporary directory, for tests of what reads one."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from pathlib import Path

from streamwarden.config.loading import Catalog, load_catalog, load_stream
from streamwarden.errors import ConfigError
from streamwarden.stream.spec import StreamSpec

STREAM = """
    name: {name}
    job: spark_jobs/job.py
    source: {{path: input/{name}}}
    sink: {{path: output/{name}}}
    checkpoint: checkpoints/{name}
"""
"""The least that makes a stream."""


@dataclass(frozen=True)
class Project:
    root: Path

    @classmethod
    def make(cls, root: Path) -> Project:
        for folder in ("config/streams", "config/drills", "spark_jobs"):
            (root / folder).mkdir(parents=True)
        (root / "spark_jobs/job.py").write_text("def build(spark, spec): ...\n")
        return cls(root)

    @property
    def data(self) -> Path:
        return self.root / "var"

    def write(self, path: str, text: str) -> Path:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(textwrap.dedent(text))
        return target

    def stream(self, name: str, extra: str = "") -> Path:
        """A correct stream file, with the lines of `extra` after it."""
        text = textwrap.dedent(STREAM).format(name=name) + textwrap.dedent(extra)
        return self.write(f"config/streams/{name}.yaml", text)

    def load(self, path: Path) -> StreamSpec:
        return load_stream(path, project=self.root, data=self.data)

    def error(self, path: Path) -> ConfigError:
        """The error that loading `path` raises; a file that loads fails the test."""
        try:
            self.load(path)
        except ConfigError as error:
            return error
        raise AssertionError(f"{path} was accepted")

    def catalog(self) -> Catalog:
        return load_catalog(self.root, self.data)
