"""How often `inspect` is wrong about a damaged checkpoint, with Spark as the judge.

Each damage is random and depends on its seed alone: a file is cut, emptied, replaced, swapped or removed, a bit is
flipped, a line, a key, an id, a type or a version is changed, a file is added. `inspect` foretells what Spark will do;
then Spark continues the query over one more file and reads the output. A wrong "fine" is a damage that stops Spark or
makes the output wrong, and that `inspect` does not call grave. A false alarm is the opposite.

    python benchmarks/checkpoint_damage/run.py [--damages 400] [--first 0] [--recorded]

Spark's judgements are kept in tests/data/damage_judgements.json, where the unit tests read them. `--recorded` compares
with these and starts no Spark.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[2] / "tests"
RECORDED = TESTS / "data" / "damage_judgements.json"


def main() -> int:
    """Judge the damages that are not judged yet, then print the table."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--damages", type=int, default=400)
    options.add_argument("--first", type=int, default=0)
    options.add_argument("--recorded", action="store_true")
    given = options.parse_args()
    sys.path.insert(0, str(TESTS))
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    seeds = range(given.first, given.first + given.damages)
    if given.recorded:
        seeds_judged = [int(seed) for seed in recorded]
    else:
        with tempfile.TemporaryDirectory(prefix="checkpoint-damage-") as folder:
            for seed, judged in _judged(Path(folder), [seed for seed in seeds if str(seed) not in recorded]):
                recorded[str(seed)] = judged
                lines = (f"{json.dumps(key)}: {json.dumps(recorded[key])}" for key in sorted(recorded, key=int))
                RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        seeds_judged = [seed for seed in seeds if str(seed) in recorded]
    _print(_compared(recorded, seeds_judged))
    return 0


def _judged(folder: Path, seeds: list[int]) -> Iterator[tuple[int, dict[str, str]]]:
    from streamwarden.lifecycle.settings import CHECKPOINT_FILES, RENAMED_AT_ONCE
    from support.checkpoints.damage_cases import STATE
    from support.checkpoints.damage_judge import ORIGINS, Judgement, RandomDamage, judge
    from support.spark.worker import SparkWorker

    with ExitStack() as stack:
        spark: Any = None
        for seed in seeds:
            if spark is None:
                conf = {f"{STATE}.maintenanceInterval": "100ms", CHECKPOINT_FILES: RENAMED_AT_ONCE}
                spark = SparkWorker(folder / f"worker{seed}", conf)
                stack.callback(spark.close)
            given = RandomDamage(seed=seed)
            with _folder(folder / f"damage{seed}") as root:
                what = given.make(root)
                try:
                    judgement, why = judge(spark, root, ORIGINS[given.archive])
                except AssertionError:  # the worker was killed after its time limit
                    judgement, why, spark = Judgement.FAILS, "no answer", None
                except OSError:  # it died while it read the output of the damage before
                    spark = None
                    continue
                yield seed, {"what": what, "spark": judgement.value, "why": why}


def _compared(recorded: dict[str, dict[str, str]], seeds: list[int]) -> list[tuple[str, bool, bool]]:
    """(place, wrong fine, false alarm) of each damage; prints those about which `inspect` is wrong."""
    from support.checkpoints.damage_judge import Judgement, RandomDamage, foretold, is_false_alarm, is_wrong_fine

    found = []
    with tempfile.TemporaryDirectory(prefix="checkpoint-damage-") as folder:
        for seed in seeds:
            given, judged = RandomDamage(seed=seed), recorded[str(seed)]
            with _folder(Path(folder) / str(seed)) as root:
                what = given.make(root)
                said = foretold(root)
            if what != judged["what"]:
                raise SystemExit(f"seed {seed} means another damage now: remove {RECORDED} and judge again")
            judgement = Judgement(judged["spark"])
            fine, alarm = is_wrong_fine(said, judgement), is_false_alarm(said, judgement)
            if fine or alarm:
                print(f"{seed} {given.archive}{' +crc' if given.checksums else ''} {what}: Spark {judgement.value} "
                      f"({judged['why']}), inspect {said}", file=sys.stderr)  # fmt: skip
            found.append(("output" if what.startswith("output/part-") else "checkpoint and manifest", fine, alarm))
    return found


def _print(found: list[tuple[str, bool, bool]]) -> None:
    counts = Counter(place for place, _, _ in found)
    print("| damaged | damages | wrong fine | false alarms |\n|---|---|---|---|")
    for place, count in sorted(counts.items()):
        fine = sum(wrong for where, wrong, _ in found if where == place)
        alarms = sum(alarm for where, _, alarm in found if where == place)
        print(f"| {place} | {count} | {fine} | {alarms} |")


@contextmanager
def _folder(root: Path) -> Iterator[Path]:
    root.mkdir(parents=True)
    yield root
    shutil.rmtree(root)


if __name__ == "__main__":
    sys.exit(main())
