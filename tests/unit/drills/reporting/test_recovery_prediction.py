"""The two formulas of recovery time, term by term."""

from __future__ import annotations

import pytest

from streamwarden.lifecycle.recovery import SnapshotFacts, predict_restart, predict_theorem
from streamwarden.stream.spec import Backend

SNAPSHOT = SnapshotFacts(backend=Backend.ROCKSDB, version=41, size=200_000_000)


def test_the_theorem_counts_the_batches_after_the_last_uploaded_snapshot() -> None:
    """Version 41 holds batch 40. Planned is 47: seven batches of 4 s."""
    assert predict_theorem(47, SNAPSHOT, 4.0).seconds == pytest.approx(28.0)


def test_without_a_snapshot_the_theorem_counts_every_batch() -> None:
    facts = SnapshotFacts(backend=Backend.ROCKSDB, version=None, size=0)
    assert predict_theorem(9, facts, 2.0).seconds == pytest.approx(20.0)


def test_a_snapshot_of_the_last_batch_leaves_nothing_to_redo() -> None:
    assert predict_theorem(40, SNAPSHOT, 4.0).seconds == 0.0


def test_prediction_without_commits_names_the_missing_data() -> None:
    prediction = predict_theorem(0, SNAPSHOT, None)
    assert prediction.seconds is None
    assert "T_batch" in prediction.missing[0]


def test_the_sharper_formula_adds_four_terms_each_with_its_source() -> None:
    """8 s start-up + 200 MB at 100 MB/s + (300,000 + 500,000) rows at 24 us + a batch of 3 s."""
    prediction = predict_restart(startup=8.0, snapshot=SNAPSHOT, rows_changed=[300_000, 500_000], redone_batch=3.0)
    assert prediction.seconds == pytest.approx(8.0 + 2.0 + 19.2 + 3.0)
    assert [term.name for term in prediction.terms] == ["start-up", "snapshot copy", "state replay", "redone batch"]
    assert all(term.source for term in prediction.terms)


def test_hdfs_backed_state_replays_ten_times_faster() -> None:
    facts = SnapshotFacts(backend=Backend.HDFS, version=41, size=0)
    prediction = predict_restart(startup=0.0, snapshot=facts, rows_changed=[1_000_000], redone_batch=0.0)
    assert prediction.seconds == pytest.approx(2.4)


def test_a_report_that_a_kill_took_is_replaced_by_the_mean_and_said_to_be() -> None:
    prediction = predict_restart(startup=0.0, snapshot=SNAPSHOT, rows_changed=[100, None, 300], redone_batch=0.0)
    replay = next(term for term in prediction.terms if term.name == "state replay")
    assert replay.seconds == pytest.approx(600 * 24e-6)
    assert "1 of them not reported" in replay.source


def test_a_prediction_with_a_missing_term_is_no_number() -> None:
    prediction = predict_restart(startup=None, snapshot=SNAPSHOT, rows_changed=[None], redone_batch=None)
    assert prediction.seconds is None
    assert len(prediction.missing) == 3
