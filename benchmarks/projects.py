"""Projects for the benchmarks. Imports nothing of Streamwarden: a benchmark may time the first import."""

from __future__ import annotations

from pathlib import Path


def small_streams(project: Path, count: int) -> None:
    """Write the files of `stream_0000` and so on, which share a job, into a new folder."""
    for folder in ("config/streams", "dags"):
        (project / folder).mkdir(parents=True)
    (project / "job.py").write_text("def build(spark, spec):\n    raise NotImplementedError\n")
    for number in range(count):
        name = f"stream_{number:04}"
        (project / f"config/streams/{name}.yaml").write_text(
            f"name: {name}\njob: job.py\nsource: {{kind: files, path: input/{name}, format: json}}\n"
            f"sink: {{kind: parquet, path: output/{name}}}\ncheckpoint: checkpoints/{name}\n"
            f"tags: [team_{number % 7}]\n"
        )
