"""The folder of a fork's sink, which a drill moves aside and back."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamwarden.drills.records.types import ForkView
from streamwarden.services.drilling.ports.sink import ForkSink
from support.checkpoints.recorded import stream_of

SINK = ForkSink()


@pytest.fixture
def fork(tmp_path: Path) -> ForkView:
    output = tmp_path / "output"
    output.mkdir()
    (output / "part-0.parquet").write_bytes(b"PAR1")
    return ForkView(
        stream="minutes__fork",
        origin="minutes",
        checkpoint=str(tmp_path / "checkpoint"),
        output=str(output),
        batch=None,
        unseen=0,
        batches_left=None,
        input_digest="d" * 64,
        spec=stream_of(tmp_path, files=1),
    )


def test_nothing_can_be_written_until_the_folder_is_back(fork: ForkView) -> None:
    output = Path(str(fork.output))
    SINK.block(fork)
    with pytest.raises(NotADirectoryError):
        (output / "part-1.parquet").write_bytes(b"PAR1")
    assert SINK.unblock(fork)
    assert [path.name for path in output.iterdir()] == ["part-0.parquet"]
    assert not SINK.unblock(fork)
    assert [path.name for path in output.iterdir()] == ["part-0.parquet"]


def test_an_exchange_that_was_cut_is_undone(fork: ForkView) -> None:
    """The process died between the move and the file."""
    output = Path(str(fork.output))
    SINK.block(fork)
    output.unlink()
    assert SINK.unblock(fork)
    assert [path.name for path in output.iterdir()] == ["part-0.parquet"]
