"""Storage that hangs is noticed, storage that answers with an error is not taken for it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from streamwarden.adapters.storage.files import LocalFiles
from streamwarden.spark.storage_watch import StorageWatch

BOUND = 60.0


def test_a_folder_that_hangs_is_noticed_after_the_bound(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    now, asked, heals = [0.0], threading.Event(), threading.Event()

    def hang(self: LocalFiles, path: str) -> None:
        asked.set()
        heals.wait(20)

    monkeypatch.setattr(LocalFiles, "stat", hang)
    watch = StorageWatch(str(tmp_path), bound=BOUND, clock=lambda: now[0])
    asking = threading.Thread(target=watch.ask)
    asking.start()
    assert asked.wait(20)
    now[0] = BOUND - 1
    assert watch.answers
    now[0] = BOUND
    assert not watch.answers
    heals.set()
    asking.join(20)
    assert watch.answers, "it answered, and the lease is renewed again if nobody has taken it over"


@pytest.mark.parametrize("checkpoint", ["/no/such/checkpoint", "nowhere://bucket/cp"])
def test_an_error_is_an_answer(checkpoint: str) -> None:
    now = [0.0]
    watch = StorageWatch(checkpoint, bound=BOUND, clock=lambda: now[0])
    watch.ask()
    now[0] = 2 * BOUND
    assert watch.answers
