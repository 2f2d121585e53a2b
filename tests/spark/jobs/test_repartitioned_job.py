"""Jobs of the catalogue, with custom state and with windows, under real drivers: repartitioned between two lives.

1. A driver reads half of the input with four partitions, and ends.
2. It is repartitioned to eight, each process of it a real one: killed while Spark rewrites, and done when it is run
   again.
3. The next driver reads the rest. Its own file still says four, and the checkpoint's number counts.
4. The oracle finds every row, once, and condemns outputs that were forged. The books of the windows balance over the
   batch that was added.
"""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from streamwarden.adapters.storage.files import checkpoint_of
from streamwarden.adapters.store import Store
from streamwarden.checkpoint.diagnosis.report import read_checkpoint
from streamwarden.checkpoint.formats.logs import offsets
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.services.auditing.auditing import audit
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.state.repartitioning import repartition
from streamwarden.stream.spec import Backend, StreamSpec
from streamwarden.verification.comparing.balance import Outcome
from support.spark.drivers import Project, project, until
from support.spark.job_runs import forged, passed, publish, stream
from support.spark.mid_batch import newest

pytestmark = [pytest.mark.spark, pytest.mark.full]

FILES, EACH, CUSTOMERS = 8, 40, 30
ANN = Author(by="ann", reason="more cores")


def purchases(seed: int) -> list[list[str]]:
    rng = random.Random(seed)
    return [
        [
            json.dumps({"customer": f"c-{rng.randrange(CUSTOMERS)}", "amount": rng.randrange(1, 9_000)})
            for _ in range(EACH)
        ]
        for _ in range(FILES)
    ]


def events(seed: int) -> list[list[str]]:
    """Each file a minute and a half, the files of a later seed after those of an earlier one."""
    rng, began = random.Random(seed), datetime(2023, 11, 14, 9, 0, tzinfo=UTC)
    return [
        [
            json.dumps(
                {
                    "event_time": f"{began + timedelta(seconds=90 * (seed * FILES + file) + n):%Y-%m-%dT%H:%M:%S}.000Z",
                    "user_id": rng.randrange(CUSTOMERS),
                    "action": rng.choice(("view", "buy")),
                }
            )
            for n in range(EACH)
        ]
        for file in range(FILES)
    ]


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Project]:
    with project(tmp_path) as opened:
        yield opened


def live(made: Project, spec: StreamSpec) -> None:
    """One driver, from its start to the end of the input."""
    assert made.await_end(made.start(spec)).kind is ExitKind.COMPLETED


def content(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def kill_while_spark_rewrites(made: Project, spec: StreamSpec, batch: int) -> None:
    """SIGKILL of the process that repartitions, when Spark has planned the batch in the copy."""
    child = os.fork()
    if child == 0:
        try:
            with Store(made.url) as store:
                repartition(store, spec, 8, ANN)
        finally:
            os._exit(0)
    copies = Path(spec.checkpoint).parent
    until("a planned batch in the copy", lambda: list(copies.glob(f"*.prepared-*/offsets/{batch}")), poll=0.01)
    os.kill(child, signal.SIGKILL)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.mark.parametrize(
    ("name", "lines", "audited"), [("state_evolution", purchases, False), ("event_windows", events, True)]
)
def test_a_job_goes_on_with_other_partitions_and_its_oracle_finds_every_row(
    made: Project, tmp_path: Path, name: str, lines: Callable[[int], list[list[str]]], audited: bool
) -> None:
    spec = stream(name, made.data, Backend.ROCKSDB)
    spec = replace(spec, state=replace(spec.state, shuffle_partitions=4))
    source = Path(str(spec.source.path))
    publish(source, lines(0), name="a")
    live(made, spec)
    last = newest(spec.checkpoint, "commits")
    before = content(Path(spec.checkpoint))
    kill_while_spark_rewrites(made, spec, last + 1)
    assert content(Path(spec.checkpoint)) == before
    done = repartition(made.store, spec, 8, ANN)
    assert list(Path(spec.checkpoint).parent.glob("*.prepared-*")) == []
    assert done.exchanged.exchange.batch == last + 1
    report = read_checkpoint(checkpoint_of(spec))
    assert (report.findings, report.shuffle_partitions) == ((), 8)
    publish(source, lines(1), name="b")
    live(made, spec)
    newest_batch = newest(spec.checkpoint, "commits")
    assert newest_batch > last + FILES
    assert offsets(checkpoint_of(spec), newest_batch).shuffle_partitions == 8
    assert passed(spec).records == 2 * FILES * EACH
    forged(spec, tmp_path / "forged")
    if audited:
        books = audit(spec, last=newest_batch - last + 2)
        assert books.outcome is Outcome.BALANCED, books
        assert books.range is not None
        assert books.range.after < last, "the batch that was added is one of those that were audited"
