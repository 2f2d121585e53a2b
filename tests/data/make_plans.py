"""Makes `plans/`: the analyzed logical plan of every stream of the catalogue, as Spark prints it.

    .venv/bin/python tests/data/make_plans.py

Takes some ten seconds a stream. Run it again when a job of the catalogue changes its query.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from streamwarden.config.loading import load_catalog
from streamwarden.services.analysis.planning import logical_plan

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    with tempfile.TemporaryDirectory() as data:
        for name, spec in load_catalog(ROOT, Path(data)).streams.items():
            for folder in ("flights", "weather"):  # flight_weather reads two folders of its source
                Path(spec.source.path or data, folder).mkdir(parents=True, exist_ok=True)
            plan = logical_plan(spec).replace(data, "/data")
            (ROOT / "tests" / "data" / "plans" / f"{name}.txt").write_text(plan)


if __name__ == "__main__":
    main()
