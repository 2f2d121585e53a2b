"""A stream is switched to a new version, or back; killed at any step, it is of one version, and the next run ends it.

Checkpoint and store are real ones, the drivers are simulated. tests/spark/drivers/test_upgrades.py has real ones.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest

from streamwarden.adapters.storage.files import checkpoint_of
from streamwarden.adapters.store import Store
from streamwarden.checkpoint.formats.logs import log_position
from streamwarden.errors import CheckpointError, LeaseHeld, ProcessError, StoreError, StreamwardenError
from streamwarden.lifecycle.upgrades.journal import Seen, Step, Upgrade
from streamwarden.services.forks.forks import fork
from streamwarden.services.twins.making import FORK
from streamwarden.services.upgrades.journals import (
    BESIDE,
    CHANGED,
    KEPT,
    NEW,
    OLD,
    Upgrades,
    read_journal,
    write_journal,
)
from streamwarden.services.upgrades.switching import Switch
from streamwarden.stream.spec import StreamSpec
from support.checkpoints.recorded import Unpack
from support.killed import changes_of, killed_at
from support.streams.upgrades import STREAM, lay_out

BATCH = 13
AFTER = STREAM.replace("minutes.py", "minutes_v2.py")
WELL, ILL = Seen(now=2e9, started=0.0, planned=BATCH + 1, committed=BATCH + 1), Seen(now=0.0, ended="failed")


@dataclass
class SimulatedStream:
    """The new version commits one batch as soon as it is started, and looks as `seen` says. `damage`: a file that it
    removes then."""

    spec: StreamSpec
    seen: Seen
    refusal: StreamwardenError | None = None
    damage: Path | None = None
    calls: list[str] = field(default_factory=list)

    def stop(self, reason: str) -> None:
        self.calls.append("stop")

    def start(self, reason: str) -> None:
        old = Path(self.spec.file).read_text() == STREAM
        self.calls.append("start old" if old else "start new")
        if not old and self.refusal is not None:
            raise self.refusal
        if not old and self.damage is not None:
            self.damage.unlink()
        if not old:
            for log in ("offsets", "commits"):
                folder = Path(self.spec.checkpoint, log)
                shutil.copy(folder / str(BATCH), folder / str(BATCH + 1))

    def look(self, since: float) -> Seen:
        return self.seen


@pytest.fixture
def spec(tmp_path: Path, unpack: Unpack) -> StreamSpec:
    return lay_out(tmp_path / "project", unpack)


def begun(spec: StreamSpec, **changes: object) -> tuple[Path, Upgrade]:
    """An upgrade whose preflight has passed."""
    folder = Upgrades.of(spec).root / "20261126T000000Z"
    folder.mkdir(parents=True)
    (folder / OLD).write_text(STREAM)
    (folder / NEW).write_text(AFTER)
    upgrade = Upgrade(
        id=folder.name, stream=spec.name, step=Step.PREPARED, by="ann", reason="", before="a", after="b", watch=0.0
    )
    return folder, write_journal(folder, upgrade, **changes)


def switch(store: Store, spec: StreamSpec, live: SimulatedStream, folder: Path) -> Switch:
    return Switch(store=store, live=live, spec=spec, folder=folder, upgrade=read_journal(folder), sleep=lambda _: None)


def committed(spec: StreamSpec) -> int | None:
    return log_position(checkpoint_of(spec)).committed


def text(spec: StreamSpec) -> str:
    return Path(spec.file).read_text()


def test_the_new_version_stays_if_it_is_well(spec: StreamSpec, store: Store) -> None:
    folder, _ = begun(spec)
    live = SimulatedStream(spec, WELL)
    ended = switch(store, spec, live, folder).carry_out()
    assert (ended.step, ended.batch, ended.why) == (Step.DONE, BATCH, "it committed 1 batch")
    assert live.calls == ["stop", "start new"]
    assert (text(spec), committed(spec)) == (AFTER, BATCH + 1)
    assert Upgrades.of(spec).open() is None


@pytest.mark.parametrize("refusal", [None, ProcessError("no Java")])
def test_a_version_that_fails_is_taken_back_with_its_batches(
    spec: StreamSpec, store: Store, refusal: StreamwardenError | None
) -> None:
    folder, _ = begun(spec)
    live = SimulatedStream(spec, ILL, refusal)
    ended = switch(store, spec, live, folder).carry_out()
    assert ended.step is Step.ROLLED_BACK
    assert live.calls == ["stop", "start new", "stop", "start old"]
    assert (text(spec), committed(spec)) == (STREAM, BATCH)


def test_a_person_may_want_to_decide(spec: StreamSpec, store: Store) -> None:
    folder, _ = begun(spec, rollback=False)
    ended = switch(store, spec, SimulatedStream(spec, ILL), folder).carry_out()
    assert (ended.step, text(spec), committed(spec)) == (Step.DONE, AFTER, BATCH + 1)


def test_a_file_that_a_person_has_changed_meanwhile_is_kept(spec: StreamSpec, store: Store) -> None:
    folder, upgrade = begun(spec)
    live = SimulatedStream(spec, WELL)
    switch(store, spec, live, folder).carry_out()
    Path(spec.file).write_text(f"{AFTER}# mine\n")
    write_journal(folder, read_journal(folder), step=Step.BACK)
    switch(store, spec, live, folder).carry_out()
    assert (text(spec), (folder / CHANGED).read_text()) == (STREAM, f"{AFTER}# mine\n")
    assert upgrade.savepoint is None


def test_a_stream_that_cannot_be_saved_goes_on_as_it_was(spec: StreamSpec, store: Store) -> None:
    folder, _ = begun(spec)
    (Path(spec.checkpoint) / f"offsets/{BATCH - 1}").unlink()
    live = SimulatedStream(spec, WELL)
    with pytest.raises(CheckpointError, match="no savepoint can be taken"):
        switch(store, spec, live, folder).carry_out()
    assert (live.calls, text(spec)) == (["stop", "start old"], STREAM)
    assert read_journal(folder).step is Step.ROLLED_BACK


def test_a_way_back_that_is_refused_leaves_the_stream_stopped(spec: StreamSpec, store: Store) -> None:
    """It is tried again by the next run."""
    folder, _ = begun(spec)
    entry = Path(str(spec.sink.path), "_spark_metadata", str(BATCH - 1))
    kept = entry.read_bytes()
    live = SimulatedStream(spec, ILL, damage=entry)
    with pytest.raises(CheckpointError, match="cannot be put back, and is stopped") as raised:
        switch(store, spec, live, folder).carry_out()
    assert live.calls == ["stop", "start new", "stop"]
    assert f"the old one up to {BATCH}" in raised.value.next_step
    entry.write_bytes(kept)
    assert switch(store, spec, live, folder).carry_out().step is Step.ROLLED_BACK
    assert (text(spec), committed(spec)) == (STREAM, BATCH)


def test_a_store_that_is_down_is_no_fault_of_the_new_version(spec: StreamSpec, store: Store) -> None:
    folder, _ = begun(spec)
    with pytest.raises(StoreError):
        switch(store, spec, SimulatedStream(spec, WELL, StoreError("down")), folder).carry_out()
    assert read_journal(folder).step is Step.SWAPPED
    assert switch(store, spec, SimulatedStream(spec, WELL), folder).carry_out().step is Step.DONE


def test_a_launch_that_was_killed_with_the_upgrade_is_no_fault_of_the_new_version(
    spec: StreamSpec, store: Store
) -> None:
    """Its lease is held until it expires."""
    folder, _ = begun(spec)
    live = SimulatedStream(spec, WELL, LeaseHeld("claimed"))

    def expires(seconds: float) -> None:
        live.refusal = None

    assert replace(switch(store, spec, live, folder), sleep=expires).carry_out().step is Step.DONE
    assert live.calls == ["stop", "start new", "start new"]


def test_an_old_version_that_went_on_after_a_kill_is_saved_again(spec: StreamSpec, store: Store) -> None:
    """Killed between the journal and the swap: that savepoint would take back what the old version wrote since."""
    folder, _ = begun(spec, step=Step.SWAPPED, savepoint="20250101T000000Z", batch=1)
    ended = switch(store, spec, SimulatedStream(spec, WELL), folder).carry_out()
    assert (ended.step, ended.batch) == (Step.DONE, BATCH)


def test_the_oldest_preflights_are_removed_and_no_upgrade(spec: StreamSpec) -> None:
    upgrades = Upgrades.of(spec)
    begun(spec)
    made = [upgrades.new(1_700_000_000.0 + number).name for number in range(KEPT + 3)]
    names = sorted(path.name for path in upgrades.root.iterdir())
    assert names == sorted([*made[-KEPT:], "20261126T000000Z"])


@dataclass
class SimulatedGreen:
    """A new version beside the old one, at the same batch: `finish` says why it cannot take over."""

    why: str | CheckpointError = ""

    def finish(self, batch: int) -> str:
        assert batch == BATCH
        if isinstance(self.why, CheckpointError):
            raise self.why
        return self.why


def beside(spec: StreamSpec) -> Path:
    """An upgrade whose new version has run beside the old one: its fork has another state, and other files' paths."""
    folder, _ = begun(spec, beside=True)
    into = folder / BESIDE / FORK
    into.mkdir(parents=True)
    made = fork(spec, into=into)
    (Path(made.spec.checkpoint) / "state/0/0/mark").write_text("of the new version")
    return folder


def files_of(checkpoint: str) -> dict[str, bytes]:
    root = Path(checkpoint)
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_a_version_beside_takes_over_with_its_state_and_the_streams_own_logs(spec: StreamSpec, store: Store) -> None:
    folder, live = beside(spec), SimulatedStream(spec, WELL)
    before = {name: text for name, text in files_of(spec.checkpoint).items() if not name.endswith(".crc")}
    ended = replace(switch(store, spec, live, folder), green=SimulatedGreen()).carry_out()
    assert (ended.step, live.calls) == (Step.DONE, ["stop", "start new"])
    after = files_of(spec.checkpoint)
    assert after.pop("state/0/0/mark") == b"of the new version"
    new = {f"{log}/{BATCH + 1}" for log in ("offsets", "commits")}
    assert {name: text for name, text in after.items() if name not in new} == before, "paths and query id, too"
    (aside,) = Path(spec.checkpoint).parent.glob("checkpoint.before-*")
    assert not (aside / "state/0/0/mark").exists()


@pytest.mark.parametrize("why", ["it differs", CheckpointError("it failed"), None])
def test_the_old_version_goes_on_if_the_one_beside_cannot_take_over(
    spec: StreamSpec, store: Store, why: str | CheckpointError | None
) -> None:
    """None: the upgrade was killed, and with it the version beside."""
    folder, live = beside(spec), SimulatedStream(spec, WELL)
    before = files_of(spec.checkpoint)
    green = None if why is None else SimulatedGreen(why)
    ended = replace(switch(store, spec, live, folder), green=green).carry_out()
    said = "interrupted before the switch" if why is None else why.observed if isinstance(why, CheckpointError) else why
    assert ended.step is Step.ROLLED_BACK
    assert said in ended.why
    assert (live.calls[-1], text(spec), files_of(spec.checkpoint)) == ("start old", STREAM, before)


def test_a_version_that_took_over_and_fails_is_taken_back_with_its_state(spec: StreamSpec, store: Store) -> None:
    folder, live = beside(spec), SimulatedStream(spec, ILL)
    ended = replace(switch(store, spec, live, folder), green=SimulatedGreen()).carry_out()
    assert (ended.step, live.calls) == (Step.ROLLED_BACK, ["stop", "start new", "stop", "start old"])
    assert (text(spec), committed(spec)) == (STREAM, BATCH)
    assert not Path(spec.checkpoint, "state/0/0/mark").exists()


def switched(store_url: str, seen: Seen, spec: StreamSpec, resumed: bool = False) -> None:
    with Store(store_url) as store:
        folder = Upgrades.of(spec).root / "20261126T000000Z"
        fresh = read_journal(folder).step is Step.PREPARED and (folder / BESIDE).exists() and not resumed
        green = SimulatedGreen() if fresh else None
        replace(switch(store, spec, SimulatedStream(spec, seen), folder), green=green).carry_out()


@pytest.mark.parametrize(
    ("seen", "end", "apart", "lay"),
    [
        (ILL, Step.ROLLED_BACK, 8, begun),
        pytest.param(ILL, Step.ROLLED_BACK, 1, begun, marks=pytest.mark.full),
        pytest.param(WELL, Step.DONE, 1, begun, marks=pytest.mark.full),
        pytest.param(WELL, Step.DONE, 1, beside, marks=pytest.mark.full),
        pytest.param(ILL, Step.ROLLED_BACK, 1, beside, marks=pytest.mark.full),
    ],
)
def test_kill_9_at_any_step_leaves_one_version_and_is_ended_by_the_next_run(
    unpack: Unpack,
    tmp_path: Path,
    store_url: str,
    seen: Seen,
    end: Step,
    apart: int,
    lay: Callable[[StreamSpec], object],
) -> None:
    def laid_out(name: str) -> StreamSpec:
        spec = lay_out(tmp_path / name, unpack)
        lay(spec)
        return spec

    changes = changes_of(partial(switched, store_url, seen, laid_out("whole")))
    steps = set()
    for step in (*range(5, changes - 20, 10 * apart), *range(changes - 20, changes + 1, apart)):
        spec = laid_out(str(step))
        assert killed_at(step, partial(switched, store_url, seen, spec))
        if text(spec) == STREAM:
            assert committed(spec) == BATCH, "the old version never goes on from what the new one wrote"
        else:
            assert text(spec) == AFTER
        found = Upgrades.of(spec).open()
        if found is None:
            continue
        steps.add(found[1].step)
        switched(store_url, seen, spec, resumed=True)
        if found[1].beside and found[1].step is Step.PREPARED:  # nothing of the stream was changed
            assert (read_journal(found[0]).step, text(spec), committed(spec)) == (Step.ROLLED_BACK, STREAM, BATCH)
            continue
        assert read_journal(found[0]).step is end
        assert text(spec) == (AFTER if end is Step.DONE else STREAM)
        assert committed(spec) == (BATCH + 1 if end is Step.DONE else BATCH)
    assert Step.PREPARED in steps
    assert (Step.BACK in steps) is (end is Step.ROLLED_BACK)
