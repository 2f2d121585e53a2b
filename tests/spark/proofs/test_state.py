"""Time travel in the checkpoints that real Sparks wrote, against their input folded in Python.

The input of each archive: file `i` has 20 rows, one a second of minute `i`, on three keys; one file a batch. Only the
watermarks come from the checkpoint: the offset log says which one a batch had.
"""

from __future__ import annotations

import csv
import errno
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from streamwarden.adapters.storage.files import checkpoint_of
from streamwarden.errors import CheckpointError, ConfigError
from streamwarden.lifecycle.time_travel.answers import Shown
from streamwarden.lifecycle.time_travel.tables import TableKind
from streamwarden.services.state.exports import export_to, target_of
from streamwarden.services.state.looking import Selection, diff, history, show
from streamwarden.services.state.two_states import StateAt, compare_states
from streamwarden.stream.spec import StreamSpec
from support.checkpoints.recorded import Archives, stream_of
from support.spark.state_looks import read_here

pytestmark = pytest.mark.spark

MINUTE = 60_000
EPOCH = 1_356_998_400_000
"""2013-01-01 00:00:00 UTC, Unix milliseconds: the first row."""

ALL = Selection()
Run = Callable[[str], StreamSpec]
Input = tuple[int, str, int]
"""Id, key, and time in Unix milliseconds."""


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Archives:
    return Archives(tmp_path_factory.mktemp("archives"))


@pytest.fixture
def run(archives: Archives, tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The run of an archive, whose name has a space: Spark's reader of state would encode it twice."""

    def made(kind: str) -> StreamSpec:
        root = tmp_path / f"the {kind}"
        archives.unpack(f"spark-4.3.0-{kind}", root)
        return replace(stream_of(root, files=1), data=str(tmp_path / "the data"))

    read_here(monkeypatch, spark)
    return made


def rows_until(batch: int) -> list[Input]:
    return [(i * 20 + n, f"k{n % 3}", EPOCH + i * MINUTE + n * 1000) for i in range(batch + 1) for n in range(20)]


def watermark(spec: StreamSpec, batch: int) -> int:
    """In force in the batch, Unix milliseconds."""
    lines = Path(spec.checkpoint, "offsets", str(batch)).read_text().splitlines()
    return int(json.loads(lines[1])["batchWatermarkMs"])


def newest(spec: StreamSpec) -> int:
    return max(int(path.name) for path in Path(spec.checkpoint, "commits").iterdir() if path.name.isdigit())


def clock(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def shown(answer: Shown) -> Counter[tuple[Any, ...]]:
    """The rows that a look shows: key, item, value, expiry."""
    assert answer.rows == len(answer.entries)
    assert answer.rows == sum(share.rows for share in answer.partitions)
    return Counter((*entry.key, entry.item, entry.value, entry.expires_ms) for entry in answer.entries)


def counted(spec: StreamSpec, batch: int, files: int) -> dict[tuple[str, str, str], str]:
    """Windows of a minute that are open after a batch: the count of ids and their sum."""
    groups: dict[tuple[int, str], list[int]] = {}
    for number, key, at in rows_until(min(batch, files - 1)):
        groups.setdefault((at - at % MINUTE, key), []).append(number)
    return {
        (clock(start), clock(start + MINUTE), key): f'{{"count":{len(ids)},"sum":{sum(ids)}}}'
        for (start, key), ids in groups.items()
        if start + MINUTE > watermark(spec, batch)
    }


BACKENDS = [
    ("hdfs", 8),
    ("changelog", 13),
    pytest.param("rocksdb", 3, marks=pytest.mark.full),
    pytest.param("format2", 4, marks=pytest.mark.full),
    pytest.param("offsets2", 3, marks=pytest.mark.full),
]


@pytest.mark.parametrize(("kind", "files"), BACKENDS)
def test_an_aggregation_as_of_each_batch(run: Run, kind: str, files: int, tmp_path: Path) -> None:
    spec = run(kind)
    last = newest(spec)
    expected = {batch: counted(spec, batch, files) for batch in range(last + 1)}
    assert last >= files, "the last batch evicts without new data"
    for batch in (1, last):
        look = show(spec, ALL, batch=batch, rows=1000)
        assert look.answer.fields == ("window.start", "window.end", "key")
        assert {entry.key: entry.value for entry in look.answer.entries} == expected[batch]
        assert {entry.key: entry.value for entry in look.answer.entries} != expected[batch - 1]  # the control
        assert look.answer.rows == len(expected[batch])
        assert look.answer.largest == (), "all keys have one row of one size"
    assert show(spec, ALL).batches == (last,)

    changes = diff(spec, ALL, before=1, after=last, rows=1000).answer
    one, two = expected[1], expected[last]
    assert (changes.rows_before, changes.rows_after) == (len(one), len(two))
    assert {change.key for change in changes.sample if not change.rows_before} == two.keys() - one.keys()
    assert {change.key for change in changes.sample if not change.rows_after} == one.keys() - two.keys()
    assert changes.appeared == len(two.keys() - one.keys())
    assert changes.vanished == len(one.keys() - two.keys())
    assert changes.changed == sum(one[key] != two[key] for key in one.keys() & two.keys())
    assert changes.unchanged == sum(one[key] == two[key] for key in one.keys() & two.keys())

    if kind == "hdfs":
        return  # the rest is the same for every backend
    window = ("2013-01-01 00:01:00", "2013-01-01 00:02:00", "k2")
    past = history(spec, Selection(keys=("key=k2", "window.start=2013-01-01 00:01:00")))
    assert {moment.batch: [entry.value for entry in moment.entries] for moment in past.answer.moments} == {
        batch: [expected[batch][window]] if window in expected[batch] else [] for batch in range(last + 1)
    }

    if kind == "changelog":
        exported(spec, last, expected[last], tmp_path)


def exported(spec: StreamSpec, batch: int, expected: dict[tuple[str, str, str], str], folder: Path) -> None:
    """An export has every row, in both formats."""
    assert export_to(spec, ALL, target_of(str(folder / "s.csv"), spec)).answer.rows == len(expected)
    with (folder / "s.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    fields = ("key.window.start", "key.window.end", "key.key")
    found = {
        tuple(row[name] for name in fields): f'{{"count":{row["value.count"]},"sum":{row["value.sum"]}}}'
        for row in rows
    }
    assert found == expected
    assert len(rows) == len(expected)
    import pyarrow.parquet

    target = target_of(str(folder / "s.parquet"), spec)
    assert export_to(spec, ALL, target, batch=batch).answer.rows == len(expected)
    table = pyarrow.parquet.read_table(target.path).to_pylist()
    assert {
        (f"{row['key']['window']['start']:%F %T}", f"{row['key']['window']['end']:%F %T}", row["key"]["key"]):
        f'{{"count":{row["value"]["count"]},"sum":{row["value"]["sum"]}}}'
        for row in table
    } == expected  # fmt: skip
    assert len(table) == len(expected)


def test_each_variable_of_a_processor_and_its_timers(run: Run) -> None:
    spec = run("processor")

    def seen(variable: str, batch: int) -> Counter[tuple[Any, ...]]:
        return shown(show(spec, Selection(variable=variable), batch=batch, rows=1000).answer)

    batch = 3
    rows = rows_until(batch)
    counts = Counter(key for _, key, _ in rows)
    values = show(spec, Selection(variable="count"), batch=batch).answer
    assert {entry.key: entry.value for entry in values.entries} == {
        (key,): f'{{"n":{count}}}' for key, count in counts.items()
    }
    planned = json.loads(Path(spec.checkpoint, "offsets", str(batch)).read_text().splitlines()[1])
    for entry in values.entries:  # an hour after the batch that has last set it
        assert entry.expires_ms == planned["batchTimestampMs"] + 3_600_000
    ids = seen("ids", batch)
    assert ids == Counter(((key, None, f'{{"id":{number}}}', None)) for number, key, _ in rows)
    assert ids != Counter(((key, None, f'{{"id":{number}}}', None)) for number, key, _ in rows_until(batch - 1))
    seconds = Counter((key, (at // 1000) % 60) for _, key, at in rows)
    assert seen("seconds", batch) == Counter(
        (key, f'{{"second":{second}}}', f'{{"n":{count}}}', None) for (key, second), count in seconds.items()
    )
    timers = show(spec, Selection(variable="timers"), batch=batch).answer
    assert Counter(entry.key for entry in timers.entries) == {(key,): batch + 1 for key in counts}
    assert all(entry.expires_ms for entry in timers.entries)

    largest = show(spec, Selection(variable="ids")).answer.largest
    assert [(share.key, share.rows, share.bytes) for share in largest] == [
        (("k0",), 35, 35 * 8),
        (("k1",), 35, 35 * 8),
        (("k2",), 30, 30 * 8),
    ]
    grown = diff(spec, Selection(variable="ids"), before=2, after=3).answer
    assert (grown.changed, grown.grew, grown.shrank, grown.appeared, grown.vanished) == (3, 3, 0, 0, 0)
    assert {change.key: (change.rows_before, change.rows_after) for change in grown.growth} == {
        ("k0",): (21, 28), ("k1",): (21, 28), ("k2",): (18, 24),
    }  # fmt: skip


def suffix(found: Iterable[int], batch: int) -> int:
    """The first id of a state that keeps the newest rows, all of them: what an operator evicts is older."""
    ids = sorted(found)
    assert ids == list(range(ids[0], (batch + 1) * 20)), ids
    return ids[0]


@pytest.mark.parametrize("kind", ["join", pytest.param("join-columns", marks=pytest.mark.full)])
def test_both_sides_of_a_join(run: Run, kind: str) -> None:
    spec = run(kind)
    firsts = {}
    for side, batch in (("left", 1), ("left", 4), ("right", 4)):
        answer = show(spec, Selection(variable=side), batch=batch, rows=1000).answer
        rows = {number: (key, at) for number, key, at in rows_until(batch)}
        firsts[side, batch] = suffix((int(str(entry.key[0])) for entry in answer.entries), batch)
        for entry in answer.entries:
            number, value = int(str(entry.key[0])), json.loads(str(entry.value))
            key, at = rows[number]
            moment = f"{clock(at).replace(' ', 'T')}.000Z"
            expected = {"id": number, "key": key, "at": moment} if side == "left" else {"other": number, "then": moment}
            assert {name: value[name] for name in expected} == expected
    assert firsts["left", 1] == 0
    assert firsts["left", 4] > 0, "rows that cannot find a partner any more were evicted"


def test_sessions_over_duplicates(run: Run) -> None:
    """Two operators, of which a look has to name one."""
    spec = run("sessions")
    with pytest.raises(ConfigError, match="--operator 1"):
        show(spec, ALL)
    batch = 3
    mark = watermark(spec, batch)
    ids = shown(show(spec, Selection(operator=1), batch=batch, rows=1000).answer)
    assert ids == Counter(
        (str(number), None, None, at + MINUTE) for number, _, at in rows_until(batch) if at + MINUTE > mark
    )
    assert ids != Counter((str(number), None, None, at + MINUTE) for number, _, at in rows_until(batch))
    sessions = show(spec, Selection(operator=0), batch=batch, rows=1000).answer
    assert sessions.fields == ("key", "sessionStartTime")
    found = {entry.key: json.loads(str(entry.value)) for entry in sessions.entries}
    for minute in range(batch + 1):
        start = EPOCH + minute * MINUTE
        for key, first, last, count in (("k0", 0, 18, 7), ("k1", 1, 19, 7), ("k2", 2, 17, 6)):
            value = found.pop((key, clock(start + first * 1000)), None)
            if value is None:
                assert start + (last + 10) * 1000 <= mark, "only what is over leaves the state"
                continue
            assert value["count"] == count
            assert value["session_window"]["end"] == f"{clock(start + (last + 10) * 1000).replace(' ', 'T')}.000Z"
    assert found == {}


@pytest.mark.full
@pytest.mark.parametrize(("kind", "files"), [("hdfs", 8), ("changelog", 13), ("rocksdb", 3), ("format2", 4)])
def test_a_copy_for_one_batch_has_all_its_columns(
    run: Run, monkeypatch: pytest.MonkeyPatch, kind: str, files: int
) -> None:
    """Of a checkpoint that cannot be linked: an object store, another disk."""
    spec = run(kind)

    def refused(source: str, target: Path) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), source)

    monkeypatch.setattr(os, "link", refused)
    for batch in (1, newest(spec)):
        found = show(spec, ALL, batch=batch, rows=1000).answer
        assert {entry.key: entry.value for entry in found.entries} == counted(spec, batch, files)


def test_what_spark_cannot_read_is_said(run: Run) -> None:
    """Not a wrong answer: a table of the snapshot that is empty."""
    spec = run("changelog")
    for file in Path(spec.checkpoint, "state").rglob("*.changelog"):
        file.unlink()
        file.write_bytes(b"")
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    with pytest.raises(CheckpointError, match="Spark cannot read the state") as caught:
        show(spec, ALL, batch=newest(spec))
    assert caught.value.next_step
    with pytest.raises(ConfigError, match=r"window\.start, window\.end, key"):
        show(run("hdfs"), Selection(keys=("k1",)))


@pytest.mark.full  # in the first tier test_repartition compares two states, and discards wrong ones
def test_the_states_of_two_checkpoints_are_compared_to_the_byte(archives: Archives, run: Run, tmp_path: Path) -> None:
    """Every variable, and the indexes beside them, which no table shows."""
    spec = run("processor")
    other = replace(spec, checkpoint=str(archives.unpack("spark-4.3.0-processor", tmp_path / "a copy")))

    def at(batch: int, partitions: int = 2, *, of: StreamSpec = spec) -> StateAt:
        return StateAt(checkpoint=checkpoint_of(of), batch=batch, partitions=partitions)

    found = compare_states(spec, at(3), at(3, of=other))
    assert [table.table.variable for table in found.tables] == ["count", "ids", "seconds", "timers", "default"]
    assert found.different == ()
    assert all(table.difference.unchanged == 3 for table in found.tables)
    store = found.tables[-1]
    assert store.table.kind is TableKind.STORE
    assert store.difference.rows_after > sum(table.difference.rows_after for table in found.tables[:-1])
    assert found.misplaced == (0, 0)
    controls = compare_states(spec, at(3, partitions=3), at(2, of=other))
    assert controls.different == controls.tables
    assert controls.misplaced[0] > 0, "of three partitions, another one would be right"
