"""`crash-matrix`. Only Spark is replaced, by a program that writes the files that a run writes. With real Spark:
tests/spark/proofs/test_crash_matrix.py."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from streamwarden.cli.exit_codes import Exit
from streamwarden.drills.crash_states import CrashState, Ending, Outcome
from streamwarden.drills.records.codec import decode, encode
from streamwarden.lifecycle import driver_folder as files
from streamwarden.services.crash_matrix import matrix
from streamwarden.services.crash_matrix.crash_layout import BATCHES, OUTCOMES, TASK
from streamwarden.stream.spec import StreamSpec
from support.command_line import CommandLine


class FakeSpark:
    """Writes the files of a run, and answers each restart with `endings[number]`, otherwise right."""

    def __init__(self) -> None:
        self.endings: dict[int, Ending] = {}
        self.runs = 0
        self.restarted: list[int] = []
        self.limits: list[float] = []

    def __call__(self, name: str, spec: StreamSpec, folder: Path, *, within: float, **settings: object) -> int:
        task = files.read_document(folder / TASK)
        assert task is not None
        self.limits.append(within)
        if not task["states"]:
            self.runs += 1
            self._run(Path(spec.checkpoint), Path(str(spec.sink.path)))
        for each in task["states"]:
            state = decode(CrashState, each)
            self.restarted.append(state.number)
            ending = self.endings.get(state.number, Ending.RIGHT)
            outcome = Outcome(
                state=state, ending=ending, detail="1 lost" if ending != Ending.RIGHT else "", seconds=0.1
            )
            files.append_line(folder / OUTCOMES, encode(outcome))
        return 0

    def _run(self, checkpoint: Path, output: Path) -> None:
        for batch in range(BATCHES):
            for place in (checkpoint / "offsets", output / "_spark_metadata", checkpoint / "commits"):
                place.mkdir(parents=True, exist_ok=True)
                (place / str(batch)).write_text(f"{batch}")
                await_link(place / str(batch))


def await_link(path: Path) -> None:
    """Wait until the recording keeps the file, so that it sees the files in their order."""
    deadline = time.monotonic() + 30
    while path.stat().st_nlink < 2:
        assert time.monotonic() < deadline, f"{path} is not kept"
        time.sleep(0.001)


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> FakeSpark:
    found = FakeSpark()
    monkeypatch.setattr(matrix, "run_program", found)
    return found


@pytest.fixture
def stream(cli: CommandLine, spark: FakeSpark) -> CommandLine:
    cli.project.stream("orders")
    for number in range(BATCHES):
        cli.project.write(f"var/input/orders/{number:03}.json", "{}\n")
    return cli


def kept(cli: CommandLine) -> list[Path]:
    """The folders of the records that are there."""
    return sorted((cli.project.data / "crash_matrix").iterdir())


def test_a_stream_that_is_right_from_every_state_is_0_and_its_record_is_removed(
    stream: CommandLine, spark: FakeSpark
) -> None:
    answer = stream("crash-matrix", "orders", "--json", "--within", "7m")
    assert answer.code == Exit.OK, answer
    assert (answer.json["stream"], answer.json["findings"]) == ("orders__fork", [])
    assert (spark.runs, spark.limits) == (1, [420.0, 420.0])
    assert spark.restarted == list(range(len(answer.json["outcomes"])))
    assert {each["state"]["batch"] for each in answer.json["outcomes"]} == {7, 8, 9, 10}
    assert kept(stream) == []


def test_an_error_is_listed_and_is_no_finding(stream: CommandLine, spark: FakeSpark) -> None:
    spark.endings = {3: Ending.REFUSED}
    answer = stream("crash-matrix", "orders", "--keep")
    assert answer.code == Exit.OK, answer
    assert "An error" in answer.out
    assert "nothing reported it" not in answer.out
    (folder,) = kept(stream)
    assert f"--again {folder}" in answer.out.replace("\n", "")


def test_another_output_is_bad_and_its_state_can_be_restarted_alone_from_the_record(
    stream: CommandLine, spark: FakeSpark
) -> None:
    spark.endings = {5: Ending.DIFFERENT}
    answer = stream("crash-matrix", "orders", "--around", "2", "--json")
    assert (answer.code, answer.json["findings"]) == (Exit.BAD, [5])
    assert {each["state"]["batch"] for each in answer.json["outcomes"]} == {2}
    (folder,) = kept(stream)
    spark.restarted.clear()
    again = stream("crash-matrix", "orders", "--again", str(folder), "--state", "5")
    assert (again.code, spark.runs, spark.restarted) == (Exit.BAD, 1, [5])
    assert "Another output, and nothing reported it" in again.out
    spark.endings = {}
    assert stream("crash-matrix", "orders", "--again", str(folder), "--state", "5").code == Exit.OK
    assert kept(stream) == [folder], "a record that is used again stays"


def test_a_state_that_the_record_lacks_is_refused_with_those_that_it_has(stream: CommandLine, spark: FakeSpark) -> None:
    assert stream("crash-matrix", "orders", "--keep", "--around", "2").code == Exit.OK
    (folder,) = kept(stream)
    states = len(spark.restarted)
    answer = stream("crash-matrix", "orders", "--again", str(folder), "--state", "4000")
    assert answer.code == Exit.USAGE
    assert f"the record has the states 0 to {states - 1}" in answer.err
    assert len(spark.restarted) == states


def test_a_folder_without_a_record_is_refused(stream: CommandLine, spark: FakeSpark, tmp_path: Path) -> None:
    answer = stream("crash-matrix", "orders", "--again", str(tmp_path / "empty"))
    assert answer.code == Exit.USAGE
    assert "has no record of a crash matrix" in answer.err
    assert "--keep" in answer.err


@pytest.mark.parametrize("around", ["", "x", "-1", "8;9", "11"])
def test_batches_that_no_run_has_are_refused(stream: CommandLine, spark: FakeSpark, around: str) -> None:
    answer = stream("crash-matrix", "orders", f"--around={around}")
    assert answer.code == Exit.USAGE
    assert "expected batches from 0 to 10, such as 7,8,9,10" in " ".join(answer.err.split())
    assert spark.runs == 0


def test_a_stream_whose_states_cannot_be_laid_out_is_refused(stream: CommandLine, spark: FakeSpark) -> None:
    file = stream.project.root / "config/streams/orders.yaml"
    file.write_text(file.read_text().replace("{path: input/orders}", "{kind: rate}"))
    answer = stream("crash-matrix", "orders")
    assert answer.code == Exit.USAGE, answer
    assert "a source of the kind rate" in answer.err
    assert spark.runs == 0
