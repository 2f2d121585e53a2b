"""A twin gets the plans of another run one by one, in their order, and ends with the watermarks of its rows."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from streamwarden.adapters.processes import with_variable
from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.formats.layout import read_whole_log
from streamwarden.checkpoint.formats.logs import offsets
from streamwarden.checkpoint.formats.sources import log_offset
from streamwarden.checkpoint.formats.uris import file_name
from streamwarden.config.stored_spec import spec_to_dict
from streamwarden.drills.records.sections import ForkSpec, OracleKind
from streamwarden.drills.records.types import ForkView
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.forks.topic_copy import Feed
from streamwarden.services.drilling.archive import DrillArchive
from streamwarden.services.drilling.forks import DrillForks
from streamwarden.services.fleet.launching.launch import FOLDER_VARIABLE
from streamwarden.services.twins import making
from streamwarden.services.twins.comparison import watermark_problems
from streamwarden.services.twins.plan_replay import FollowingLaying, Laying, MergedLaying, batches_of, follow
from streamwarden.stream.spec import StreamSpec
from support.checkpoints.recorded import Unpack, rewrite, stream_of

ONE, TWO = "~EventTimeWatermark a", "~EventTimeWatermark a\n~EventTimeWatermark b"


def commits(folder: Path, *watermarks: int) -> Path:
    for batch, at in enumerate(watermarks):
        file = folder / "commits" / str(batch)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"v1\n{json.dumps({'nextBatchWatermarkMs': at})}")
    return folder


def problems(tmp_path: Path, fork: tuple[int, ...], plan: str = ONE, skipped: tuple[int, ...] = ()) -> list[str]:
    mine, its = (commits(tmp_path / name, *marks) for name, marks in (("fork", fork), ("twin", (0, 10, 20))))
    return watermark_problems(open_path(str(mine)), open_path(str(its)), range(3), skipped, plan)


def test_a_watermark_that_does_not_move_is_a_problem(tmp_path: Path) -> None:
    """The twin executes the batches with the fork's watermark, so that both would leave the same windows open."""
    assert problems(tmp_path, (0, 10, 20)) == []
    (problem,) = problems(tmp_path, (0, 10, 10))
    assert "watermark that the batch's rows do not explain" in problem
    assert "after batch 2 it is 10 ms, and 20 ms in the twin" in problem


def test_a_batch_that_a_start_skipped_does_not_move_it(tmp_path: Path) -> None:
    assert problems(tmp_path, (0, 0, 20), skipped=(1,)) == []


@pytest.mark.parametrize(
    ("marks", "plan", "wrong"), [((0, 10, 30), ONE, 1), ((0, 10, 30), TWO, 0), ((0, 5, 20), TWO, 1)]
)
def test_a_driver_that_lives_long_knows_more_of_several_watermarks_than_the_twin(
    tmp_path: Path, marks: tuple[int, ...], plan: str, wrong: int
) -> None:
    assert len(problems(tmp_path, marks, plan)) == wrong


def test_the_batches_of_a_run_are_whole(tmp_path: Path) -> None:
    run = open_path(str(commits(tmp_path / "run", 0, 1, 2, 3)))
    assert (batches_of(run, None), batches_of(run, 1)) == ([0, 1, 2, 3], [2, 3])
    (tmp_path / "run" / "commits" / "2").unlink()
    with pytest.raises(CheckpointError, match="commits/ lacks batch 2"):
        batches_of(run, None)
    with pytest.raises(CheckpointError, match="commits/ lacks batch 4"):
        batches_of(run, 3)


LAST = 13
RUN = "kill-20260101T000000-abc"
JOB, TWIN = OracleKind.JOB, OracleKind.TWIN


@pytest.fixture
def origin(unpack: Unpack, tmp_path: Path) -> StreamSpec:
    unpack("spark-4.3.0-changelog", tmp_path / "origin")
    return stream_of(tmp_path / "origin", files=17)


def forks_of(origin: StreamSpec, data: Path) -> DrillForks:
    return DrillForks(DrillArchive(data), lambda _: origin)


def made(origin: StreamSpec, data: Path, rewind: int | str, *oracles: OracleKind) -> ForkView:
    spec = ForkSpec(rewind=rewind)  # type: ignore[arg-type]
    return forks_of(origin, data).make(RUN, "minutes", spec, Feed.ORIGIN, oracles)


def test_the_twin_of_a_rewound_fork_begins_with_the_batch_after_which_the_fork_began(
    origin: StreamSpec, tmp_path: Path
) -> None:
    """The fork has gone on since: its files are the origin's, up to the newest batch."""
    data = tmp_path / "data"
    view = made(origin, data, 3, JOB, TWIN)
    assert view.batch == LAST - 3
    home = data / "drills" / RUN / making.TWIN
    twin = making.make(view.spec, home, 1, rewound=True)
    laying = Laying(open_path(origin.checkpoint), origin.source.path, twin.places)
    for wrong in (LAST - 3, LAST - 1):
        with pytest.raises(CheckpointError, match=f"batch {wrong} cannot be executed next") as error:
            laying.lay(wrong)
        assert error.value.expected == f"batch {LAST - 2}"
    laying.lay(LAST - 2)
    own, theirs = (Path(place, "offsets", str(LAST - 2)) for place in (twin.spec.checkpoint, origin.checkpoint))
    assert own.read_text() == theirs.read_text()
    read = Path(twin.spec.checkpoint, "sources/0").glob("[0-9]*")
    text = "".join(path.read_text() for path in read)
    assert twin.places.input in text
    assert str(origin.source.path) not in text


def test_a_repartition_is_no_batch_that_a_twin_executes(origin: StreamSpec, tmp_path: Path) -> None:
    """Spark refuses to go on from a planned batch with another number of partitions."""
    view = made(origin, tmp_path / "data", "all", TWIN)
    twin = making.make(view.spec, tmp_path / "data" / "drills" / RUN / making.TWIN, 2, rewound=False)
    plan = Path(origin.checkpoint, "offsets/1")
    key = '"spark.sql.shuffle.partitions":"'
    assert f"{key}2" in plan.read_text()
    rewrite(plan, plan.read_bytes().replace(f"{key}2".encode(), f"{key}8".encode()))
    laying = Laying(open_path(origin.checkpoint), origin.source.path, twin.places)
    laying.lay(0)
    commits(Path(twin.spec.checkpoint), 0)
    with pytest.raises(CheckpointError, match="batch 1 is a repartition of the state, from 2 to 8 partitions") as error:
        laying.lay(1)
    assert error.value.next_step.startswith("begin after batch 1")


def test_the_start_of_a_fork_is_kept_only_for_a_twin(origin: StreamSpec, tmp_path: Path) -> None:
    for number, (rewind, oracles) in enumerate([(3, (JOB,)), ("all", (JOB, TWIN)), ("all", (TWIN,))]):
        data = tmp_path / str(number)
        view = made(origin, data, rewind, *oracles)
        assert view.oracles == oracles
        assert not (data / "drills" / RUN / making.TWIN).exists()


def test_a_twin_of_a_fork_from_the_beginning_begins_with_batch_0(origin: StreamSpec, tmp_path: Path) -> None:
    view = made(origin, tmp_path / "data", "all", TWIN)
    twin = making.make(view.spec, tmp_path / "data" / "drills" / RUN / making.TWIN, 2, rewound=False)
    laying = Laying(open_path(origin.checkpoint), origin.source.path, twin.places)
    with pytest.raises(CheckpointError, match="batch 1 cannot be executed next"):
        laying.lay(1)
    laying.lay(0)
    assert len(list(Path(twin.places.input).iterdir())) == 17


def test_a_fork_that_follows_its_stream_gets_the_files_that_came_after_it(origin: StreamSpec, tmp_path: Path) -> None:
    view = made(origin, tmp_path / "data", 3, JOB, TWIN)
    twin = making.make(view.spec, tmp_path / "data" / "drills" / RUN / making.TWIN, 1, rewound=True)
    for file in Path(twin.places.input).iterdir():
        file.unlink()
    laying = FollowingLaying(open_path(origin.checkpoint), origin.source.path, twin.places)
    laying.lay(LAST - 2)
    log = read_whole_log(open_path(twin.spec.checkpoint) / f"sources/0/{LAST - 2}")
    (name,) = (file_name(str(json.loads(line)["path"])) for line in log.lines)
    assert [path.name for path in Path(twin.places.input).iterdir()] == [name]


def test_batches_are_followed_until_the_one_that_is_named(tmp_path: Path) -> None:
    run, ends = open_path(str(tmp_path)), iter([None, None, 4, 4, 4])
    commits(tmp_path, *range(6))
    assert list(follow(run, 3, lambda: next(ends))) == [3, 4]


@pytest.mark.parametrize("purged", [True, False])
def test_a_batch_that_is_purged_or_taken_back_cannot_be_followed(tmp_path: Path, purged: bool) -> None:
    commits(tmp_path, *range(6 if purged else 2))
    for batch in range(5 if purged else 0):
        (tmp_path / "commits" / str(batch)).unlink()
    with pytest.raises(CheckpointError, match="batch 3 cannot be executed next"):
        next(follow(open_path(str(tmp_path)), 3, lambda: None))


@pytest.mark.parametrize("rewind", [3, "all"])
def test_a_job_reads_nothing_in_its_spec_that_tells_the_twin_from_the_fork(
    origin: StreamSpec, tmp_path: Path, rewind: int | str
) -> None:
    """All of its places have the same names below the folder of the run; only that folder is another one."""
    data = tmp_path / "data"
    view = made(origin, data, rewind, TWIN)
    home = data / "drills" / RUN
    twin = making.make(view.spec, home / making.TWIN, 1, rewound=rewind != "all")
    text = json.dumps(spec_to_dict(twin.spec))
    assert "twin" not in text.replace(str(tmp_path), "")
    assert text.replace(f"{home}/runs/1/", f"{home}/") == json.dumps(spec_to_dict(view.spec))


def test_healing_removes_files_of_the_twins_that_are_not_evidence(origin: StreamSpec, tmp_path: Path) -> None:
    data = tmp_path / "data"
    forks, view = forks_of(origin, data), made(origin, data, 3, JOB, TWIN)
    home = data / "drills" / RUN / making.TWIN
    making.make(view.spec, home, 1, rewound=True)
    removed = forks.clear(RUN, view)
    assert {"runs/start", "runs/1/fork/input", "runs/1/fork/checkpoint/state"} <= set(removed)
    assert (home / "1" / "fork" / "output" / "_spark_metadata").is_dir()
    assert not (home / "start").exists()
    assert forks.clear(RUN, view) == []
    forks.clear(RUN, None)
    assert not home.exists(), "a fork that was never finished leaves no evidence"


def test_a_process_of_a_twin_whose_drill_was_killed_is_ended(origin: StreamSpec, tmp_path: Path) -> None:
    data = tmp_path / "data"
    forks, view = forks_of(origin, data), made(origin, data, 3, JOB, TWIN)
    twin = making.make(view.spec, data / "drills" / RUN / making.TWIN, 1, rewound=True)
    left = subprocess.Popen(["sleep", "600"], env={**os.environ, FOLDER_VARIABLE: str(twin.folder)})
    other = subprocess.Popen(["sleep", "600"], env={**os.environ, FOLDER_VARIABLE: str(tmp_path / "another")})
    try:
        deadline = time.monotonic() + 10
        while not with_variable(FOLDER_VARIABLE, str(twin.folder)):
            assert time.monotonic() < deadline
        forks.clear(RUN, view)
        assert left.wait(timeout=10) == -signal.SIGKILL
        assert other.poll() is None
    finally:
        for process in (left, other):
            process.kill()
            process.wait()


def test_a_longer_trigger_has_the_input_of_several_batches_under_the_first_ones_watermark(
    origin: StreamSpec, tmp_path: Path
) -> None:
    view = made(origin, tmp_path / "data", 4, JOB, TWIN)
    twin = making.make(view.spec, tmp_path / "data" / "drills" / RUN / making.TWIN, 1, rewound=True)
    groups = {LAST - 3: (LAST - 3, LAST - 1), LAST - 2: (LAST, LAST)}
    laying = MergedLaying(open_path(origin.checkpoint), origin.source.path, twin.places, groups=groups)
    theirs, own = (open_path(checkpoint) for checkpoint in (origin.checkpoint, twin.spec.checkpoint))
    for batch, (first, last) in groups.items():
        laying.lay(batch)
        plan = offsets(own, batch)
        assert (plan.sources, plan.conf) == (offsets(theirs, last).sources, offsets(theirs, last).conf)
        assert (plan.watermark_ms, plan.timestamp_ms) == (
            offsets(theirs, first).watermark_ms,
            offsets(theirs, last).timestamp_ms,
        )
        Path(twin.spec.checkpoint, "commits", str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    assert offsets(theirs, LAST - 1).watermark_ms > offsets(theirs, LAST - 3).watermark_ms
    read = read_whole_log(own / f"sources/0/{log_offset(offsets(theirs, LAST).sources[0])}")
    assert all(twin.places.input in line for line in read.lines)
