"""What a probe of a stream reads: its waiting input, its state."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.adapters.store import Store
from streamwarden.checkpoint.filesystem import Location
from streamwarden.errors import CheckpointError
from streamwarden.health.checks.batches import progress_stalled
from streamwarden.health.checks.input.files_read_again import CHECK
from streamwarden.health.window import DeclaredInput, Reading, Window
from streamwarden.services.monitoring.probe import probe
from support.streams.monitored import T0, Stream


class TestWaitingInput:
    @pytest.fixture
    def stream(self, tmp_path: Path, store: Store) -> Stream:
        stream = Stream(tmp_path, store)
        stream.run(range(3), reported=False)
        return stream

    def test_files_that_no_batch_planned(self, stream: Stream) -> None:
        stream.drop("late.json", T0 - 100)
        stream.drop("later.json", T0 - 50)
        waiting = probe(stream.spec).waiting
        assert waiting is not None
        assert (waiting.count, waiting.size, waiting.since) == (2, 4, T0 - 100)
        assert (waiting.planned, waiting.planned_batches) == (3, 3)

    def test_names_that_spark_percent_encodes_are_the_same_files(self, stream: Stream) -> None:
        odd = "a b%20c=ü.json"
        stream.drop(odd)
        stream.plan(3, T0, odd)
        waiting = probe(stream.spec).waiting
        assert waiting is not None
        assert waiting.count == 0

    def test_hidden_and_unfinished_files_do_not_wait(self, stream: Stream) -> None:
        for name in ("_SUCCESS", ".part-1.json.tmp", "_tmp.json"):
            stream.drop(name)
        waiting = probe(stream.spec).waiting
        assert waiting is not None
        assert waiting.count == 0

    def test_files_too_old_for_spark_do_not_wait(self, stream: Stream) -> None:
        """`maxFileAge` counts from the newest file that was read, seven days by default."""
        stream.drop("ancient.json", T0 - 2 - 7 * 86_400 - 1)
        stream.drop("old.json", T0 - 6 * 86_400)
        waiting = probe(stream.spec).waiting
        assert waiting is not None
        assert waiting.count == 1
        hasty = replace(stream.spec, source=replace(stream.spec.source, options={"maxFileAge": "1d"}))
        waiting = probe(hasty).waiting
        assert waiting is not None
        assert waiting.count == 0

    @pytest.mark.parametrize("path", ["input/*.json", "input/{a,b}", "input/day=?"])
    def test_patterns_are_not_guessed_at(self, stream: Stream, path: str) -> None:
        source = replace(stream.spec.source, path=str(stream.home / path))
        assert probe(replace(stream.spec, source=source)).waiting is None

    def test_subfolders_are_not_guessed_at(self, stream: Stream) -> None:
        stream.drop("day=1/a.json")
        assert probe(stream.spec).waiting is None

    def test_an_input_folder_that_is_not_there_yet_holds_nothing(self, stream: Stream) -> None:
        source = replace(stream.spec.source, path=str(stream.home / "nowhere"))
        waiting = probe(replace(stream.spec, source=source)).waiting
        assert waiting is not None
        assert waiting.count == 0


def test_snapshots_and_sizes_of_the_state_are_read(tmp_path: Path, store: Store) -> None:
    """Versions 1..3 with a snapshot each, version 4 with its changelog alone."""
    stream = Stream(tmp_path, store)
    stream.run(range(3), reported=False)
    stream.plan(3, T0)
    stream.commit(3, T0 + 1, snapshot=False)
    (instance,) = probe(stream.spec).state or ()
    assert (instance.operator, instance.partition) == (0, 0)
    assert (instance.snapshot, instance.version, instance.size) == (3, 4, 700)


def test_what_a_check_reads_by_itself_is_read_and_a_failure_stops_no_other_probe(tmp_path: Path, store: Store) -> None:
    """A check declares what it reads; nothing else has to know of it."""
    stream = Stream(tmp_path, store)
    stream.run(range(3), reported=False)

    def fails(checkpoint: Location, declared: DeclaredInput) -> int:
        raise CheckpointError(f"{checkpoint.path} is torn")

    entries, torn = Reading(lambda checkpoint, declared: len(checkpoint.entries())), Reading(fails)
    check = replace(CHECK, readings=(torn, entries))
    found = probe(stream.spec, checks=(check, progress_stalled.CHECK))
    assert found.readings == {entries: len(list(Path(stream.spec.checkpoint).iterdir()))}
    assert found.waiting is not None
    window = Window(spec=stream.spec, now=T0, readings=found.readings)
    assert (window[entries], window[torn]) == (found.readings[entries], None)
