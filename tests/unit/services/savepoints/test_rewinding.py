"""A stream is put back to an older batch of its own checkpoint, or nothing is changed."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.adapters.store import Store
from streamwarden.checkpoint.diagnosis.report import read_checkpoint
from streamwarden.checkpoint.formats.logs import all_offsets
from streamwarden.errors import CheckpointError, StreamwardenError
from streamwarden.lifecycle.exchanges.exchange import journal_of
from streamwarden.services.savepoints.creating import create
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.savepoints.previewing import preview_restore, preview_rewind
from streamwarden.services.savepoints.restoring import Request, restore
from streamwarden.services.savepoints.rewinding import Target, rewind
from streamwarden.services.savepoints.saved import Savepoints
from streamwarden.stream.spec import StreamSpec
from support.checkpoints.recorded import Unpack, stream_of
from support.killed import changes_of, killed_at

ASKED = Request(author=Author(by="ann", reason="a wrong job"))
NEWEST = 13


@pytest.fixture
def spec(unpack: Unpack, tmp_path: Path) -> StreamSpec:
    """Batches 0 to 13 are committed."""
    unpack("spark-4.3.0-changelog", tmp_path / "origin")
    return replace(stream_of(tmp_path / "origin", files=17), data=str(tmp_path / "data"))


def batch_of(spec: StreamSpec) -> int | None:
    """The batch that checkpoint and output have, both whole."""
    report = read_checkpoint(open_path(spec.checkpoint), output=open_path(spec.sink.path))
    assert report.findings == ()
    assert report.position.committed == report.sink_newest
    return report.position.committed


def tree(spec: StreamSpec) -> dict[str, bytes]:
    root = Path(spec.checkpoint).parents[1]
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file() and "store" not in path.name}


def test_a_stream_is_rewound_to_a_batch_that_is_kept(spec: StreamSpec, store: Store) -> None:
    done = rewind(store, spec, Target(batch=8), ASKED)
    assert batch_of(spec) == done.exchange.batch == 8
    saved = Savepoints.of(spec).get()
    assert (saved.batch, saved.by, done.exchange.subject) == (8, "ann", f"savepoint {saved.id}")
    assert done.exchange.proof == "not tried on a fork"


def test_a_checkpoint_may_be_a_url_with_a_slash_at_its_end(spec: StreamSpec, store: Store) -> None:
    """The copies are beside it, and not in it."""
    rewind(store, replace(spec, checkpoint=f"file://{spec.checkpoint}/"), Target(batch=8), ASKED)
    assert batch_of(spec) == 8
    beside = sorted(path.name.partition("-")[0] for path in Path(spec.checkpoint).parent.iterdir())
    assert beside == ["checkpoint", "checkpoint.before", "input", "output"]


def test_a_stream_is_rewound_to_a_time(spec: StreamSpec, store: Store) -> None:
    planned = all_offsets(open_path(spec.checkpoint))[9].timestamp_ms
    rewind(store, spec, Target(at=planned / 1000), ASKED)
    assert batch_of(spec) == 9


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (Target(batch=4), "name one of the batches 0-3, 5-13"),
        (Target(batch=14), "name one of the batches 0-3, 5-13"),
        (Target(at=1.0), r"one of the batches that are kept: 0 \(20.*Z\) to 13 \(20"),
        (Target(at=9e9), "it lies ahead"),
    ],
)
def test_what_is_not_kept_is_refused_and_what_is_kept_is_named(
    spec: StreamSpec, store: Store, target: Target, message: str
) -> None:
    Path(spec.checkpoint, "commits/4").unlink()
    before = tree(spec)
    for asked in (partial(rewind, store, spec, target, ASKED), partial(preview_rewind, spec, target)):
        with pytest.raises(CheckpointError, match=message):
            asked()
    assert tree(spec) == before, "no savepoint is left behind either"


def test_a_preview_changes_nothing(spec: StreamSpec, store: Store) -> None:
    """It names what a rewind or a restore then does."""
    create(spec, 8, Author(by="ann", reason=""))
    quarantine = Path(spec.checkpoint).parents[1] / "quarantine"
    replaced = replace(spec, quarantine=str(quarantine))
    (quarantine / f"query={Savepoints.of(spec).get().query_id}/batch=12").mkdir(parents=True)
    before = tree(spec)
    previews = preview_restore(replaced, None), preview_rewind(replaced, Target(batch=8))
    assert tree(spec) == before
    for preview in previews:
        assert (preview.batch, preview.remains, preview.quarantined) == (8, "", 1)
        assert preview.checkpoint == spec.checkpoint
        assert preview.output.startswith("10 data files of later batches and the previous manifest are moved to ")
    assert previews[0].files == previews[1].files
    assert restore(store, replaced, None, ASKED).output.startswith("10 data files of later batches")


def rewound(store_url: str, spec: StreamSpec) -> None:
    with Store(store_url) as store:
        rewind(store, spec, Target(batch=2), ASKED)


def test_a_rewind_that_was_interrupted_is_completed_by_the_command_that_it_names(
    unpack: Unpack, tmp_path: Path, store_url: str
) -> None:
    def laid_out(name: str) -> StreamSpec:
        unpack("spark-4.0.1-changelog", tmp_path / name / "origin")
        return replace(stream_of(tmp_path / name / "origin", files=0), data=str(tmp_path / name / "data"))

    changes, seen = changes_of(partial(rewound, store_url, laid_out("whole"))), set()
    for step in (changes // 3, changes - 2):
        spec = laid_out(str(step))
        assert killed_at(step, partial(rewound, store_url, spec))
        begun = Path(journal_of(spec.checkpoint)).exists()
        seen.add(begun)
        if begun:
            with pytest.raises(StreamwardenError) as refused:
                rewound(store_url, spec)
            command = refused.value.next_step
            assert f"streamwarden savepoint restore minutes {Savepoints.of(spec).get().id}" in command
            with pytest.raises(StreamwardenError, match="a restore was interrupted"):
                preview_rewind(spec, Target(batch=2))
            with Store(store_url) as store:
                restore(store, spec, None, ASKED)
        else:
            assert batch_of(spec) == 5
            rewound(store_url, spec)
        assert batch_of(spec) == 2
    assert seen == {False, True}
