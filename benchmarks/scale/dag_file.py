"""Parsing `dags/streams.py`, beyond the import of Airflow."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.projects import small_streams
from benchmarks.scale.part import Part, Sizes, child, verdict

GOAL = 2.0


def measure(sizes: Sizes) -> Iterator[str]:
    """One parse of each size, as Airflow's processor does it: in a process that has imported Airflow."""
    for streams in sizes.streams:
        with tempfile.TemporaryDirectory() as folder:
            project = Path(folder) / "project"
            small_streams(project, streams)
            environment = {
                **os.environ,
                "AIRFLOW_HOME": f"{folder}/airflow",
                "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
                "STREAMWARDEN_DATA": f"{folder}/data",
            }
            found = child(Path(__file__), project, environment=environment)
        wall, cpu, imports = found["wall"], found["cpu"], found["imports"]
        told = verdict(wall + imports, GOAL, streams)
        each = wall * 1e3 / streams
        print_imports = f"{imports:.2f} s"
        yield f"| {streams:,} | {wall:.2f} s | {cpu:.2f} s | {each:.1f} ms | {print_imports} | {told} |"


def parse(project: Path, streams: int) -> None:
    """Print what the parse took."""
    import airflow.providers.apache.spark.operators.spark_submit
    import airflow.sdk  # noqa: F401

    began = time.monotonic()
    from streamwarden.airflow.dags.streams import stream_dags
    from streamwarden.services.analysis import linting  # noqa: F401 - imported by the first parse

    imported, cpu = time.monotonic(), time.process_time()
    dags = stream_dags(str(project / "dags/streams.py"))
    took = {"wall": time.monotonic() - imported, "cpu": time.process_time() - cpu, "imports": imported - began}
    assert len(dags) == streams
    print(json.dumps(took))


PART = Part(
    name="dag_file",
    goal=f"Parse of the DAG file; goal: {GOAL:.0f} s for 1,000 streams with our own imports, beyond those of Airflow",
    head="| streams | parse | CPU | a stream | our imports | goal |",
    measure=measure,
)

if __name__ == "__main__":
    parse(Path(sys.argv[1]), len(list(Path(sys.argv[1], "config/streams").iterdir())))
