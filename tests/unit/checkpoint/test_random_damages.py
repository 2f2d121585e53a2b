"""What the inspector says of random damages, against what Spark 4.3 made of them.

`benchmarks/checkpoint_damage` recorded Spark's judgements in tests/data/damage_judgements.json and compares them all;
here are those that taught something, and a sample of the others.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.checkpoints.damage_judge import (
    RECORDED,
    Judgement,
    RandomDamage,
    foretold,
    is_false_alarm,
    is_wrong_fine,
    recorded,
)

TAUGHT = {
    32: "the entry lacks a line, whose file has no row",
    39: "the entry lacks its only line, and its checksum file does not match",
    127: "two changelogs of format 2 were exchanged",
    165: "a bit of a block of a RocksDB table is flipped",
    148: "the operator's metadata names no store",
    177: "the entry lacks its last line",
    212: "the metadata is of another operator",
    215: "a changelog of format 2 was replaced by one of another version",
    226: "a data file has other content of the same size",
    285: "two snapshots were exchanged",
    318: "the log of the source names a file that does not exist instead of one that does",
    389: "a batch id is beyond Java's longs",
    445: "a schema does not match its checksum file",
}
"""Seeds of damages about which the inspector was wrong once."""
SAMPLE = 7
NOT_READ = {
    247: "the rows of the output's data files",
    256: "the rows of the output's data files",
    272: "the rows of the output's data files",
}
"""Seeds of damages that the inspector does not see, and what it does not read."""
TOO_CAREFUL = {
    69: "Spark reads the file twice, and drops its rows as late",
    112: "two data files were exchanged: all rows are there",
    167: "the entry names another path for a file without rows",
    175: "two data files were exchanged: all rows are there",
    238: "the offset is read as the name of a source",
    251: "two data files were exchanged: all rows are there",
    401: "two data files were exchanged: all rows are there",
    413: "Spark reads the file twice, and drops its rows as late",
}
"""Seeds of damages that did no harm to this query, although the inspector is right to warn."""


SEEDS = sorted({*TAUGHT, *NOT_READ, *TOO_CAREFUL, *(seed for seed in recorded() if seed % SAMPLE == 0)})


def test_hundreds_of_damages_were_judged_and_each_outcome_is_among_them() -> None:
    assert len(recorded()) >= 400
    assert set(recorded().values()) == set(Judgement)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_damage_is_called_fine_that_stops_spark_or_makes_its_output_wrong(seed: int, tmp_path: Path) -> None:
    what = RandomDamage(seed=seed).make(tmp_path)
    said = foretold(tmp_path)
    judgement = recorded()[seed]
    assert is_wrong_fine(said, judgement) is (seed in NOT_READ), (what, said, judgement)
    assert is_false_alarm(said, judgement) is (seed in TOO_CAREFUL), (what, said, judgement)


def test_a_seed_means_the_damage_that_was_judged(tmp_path: Path) -> None:
    described = {int(seed): each["what"] for seed, each in json.loads(RECORDED.read_text()).items()}
    for seed in SEEDS[:10]:
        assert RandomDamage(seed=seed).make(tmp_path / str(seed)) == described[seed]
