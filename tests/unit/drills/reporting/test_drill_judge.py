"""The judge's adapter: what a library does at import must not pass for a verdict."""

from __future__ import annotations

import threading

import pytest

from streamwarden.errors import VerificationError
from streamwarden.services.drilling.judging import ExpectationsJudge
from streamwarden.services.verifying import expectations
from support.oracles.reconciling import reconcile


def test_a_library_that_ends_the_program_at_import_is_an_error_not_a_success(monkeypatch: pytest.MonkeyPatch) -> None:
    def ends(*_: object) -> None:
        raise SystemExit(0)

    monkeypatch.setattr(expectations, "judge", ends)
    rows = reconcile({(1,): (2,)}, [((1,), (2,))], key_columns=("a",), value_columns=("b",), records=5)
    with pytest.raises(VerificationError, match="ended the program with status 0"):
        ExpectationsJudge().judge(rows, 1)


def test_a_library_that_cannot_be_imported_beside_the_reading_is_reported_by_the_judge_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    imported, errors = [], []

    def ends() -> None:
        imported.append(True)
        raise SystemExit(0)

    monkeypatch.setattr(expectations, "_expectations", ends)
    monkeypatch.setattr(threading, "excepthook", errors.append)
    expectations.import_beside()
    for thread in threading.enumerate():
        if thread.name == "import great_expectations":
            thread.join(10)
    assert (imported, errors) == ([True], [])
