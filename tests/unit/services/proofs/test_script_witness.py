"""How the queries of a script are compared with the twin's, each by itself and all in one verdict."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from streamwarden.drills.records.sections import OracleKind, VerificationSpec
from streamwarden.drills.records.twin import TwinReport
from streamwarden.drills.records.types import ForkView
from streamwarden.errors import VerificationError
from streamwarden.lifecycle.driver_folder import write_document
from streamwarden.lifecycle.forks.places import Places
from streamwarden.lifecycle.forks.scripts import INDEX, ForkQuery, OutputKind
from streamwarden.services.twins import comparison, making
from streamwarden.services.twins.keys import DECLARED, WHOLE, RowKey
from streamwarden.services.twins.running import Execution, Twin
from streamwarden.services.twins.scripts import QueryVerdict, ScriptWitness, together
from streamwarden.sinks.fork_output import AGAIN_NOTE, read_captured
from streamwarden.sinks.output import Output
from streamwarden.stream.spec import ForeachBatch, ScriptFork, StreamSpec
from streamwarden.verification.comparing.starts import Start
from streamwarden.verification.tolerance import Tolerance

pytestmark = pytest.mark.usefixtures("one_database")


def capture(folder: Path, name: str, **columns: list[object]) -> None:
    (folder / name).mkdir(parents=True)
    parquet.write_table(pa.table(columns), folder / name / "part-0.parquet")


def test_a_capture_is_read_with_the_batch_of_each_row(tmp_path: Path) -> None:
    capture(tmp_path, "batch_id=0", id=[1, 2])
    capture(tmp_path, "batch_id=1", id=[], note=[])
    capture(tmp_path, "batch_id=2", note=["x"], id=[3])
    capture(tmp_path, "batch_id=3", id=[4])  # it was cut: nothing committed it
    output = read_captured(str(tmp_path), [0, 1, 2])
    assert output.columns == ("batch", "id", "note")
    assert output.rows == [(0, 1, None), (0, 2, None), (2, 3, "x")]
    assert (output.problems, dict(output.notes), output.files) == ((), {}, 3)


def test_a_committed_batch_that_was_never_handed_over_is_a_problem(tmp_path: Path) -> None:
    capture(tmp_path, "batch_id=0", id=[1])
    assert read_captured(str(tmp_path), [0, 1]).problems == (
        "batch 1 is committed, and its rows were never handed over",
    )


def test_a_batch_that_was_executed_again_is_counted_and_has_to_hand_over_the_same_rows(tmp_path: Path) -> None:
    capture(tmp_path, "batch_id=0", id=[1, 2])
    capture(tmp_path, "_again/batch_id=0.1", id=[2, 1])
    output = read_captured(str(tmp_path), [0])
    assert (output.problems, output.notes[AGAIN_NOTE], len(output.rows)) == ((), 1, 2)
    capture(tmp_path, "_again/batch_id=0.2", id=[2])
    assert read_captured(str(tmp_path), [0]).problems == ("batch 0 was executed again and handed over other rows",)


def verdict(
    name: str,
    mine: list[tuple[object, ...]],
    its: list[tuple[object, ...]],
    *,
    key: tuple[str, ...] = (),
    tolerances: Mapping[str, Tolerance] | None = None,
    problems: tuple[str, ...] = (),
) -> QueryVerdict:
    columns = ("id", "total")
    query = ForkQuery(
        name=name,
        order=1,
        checkpoint="/c",
        kind=OutputKind.CAPTURE,
        output="/o",
        instead_of="the topic alerts",
        format="kafka",
    )
    before = QueryVerdict(
        query=query,
        batches=(0, 1),
        key=RowKey(key, WHOLE),
        records=10,
        problems=problems,
        mine=Output.of_rows(columns, mine),
    )
    return before.compared(Output.of_rows(columns, its), tolerances or {})


def test_all_queries_make_one_verdict_that_names_query_and_row() -> None:
    right = verdict("plain", [(1, 1.0), (1, 1.0)], [(1, 1.0), (1, 1.0)])
    lost = verdict("alerts", [(1, 1.0)], [(1, 1.0), (2, 2.0)])
    outcome = together([right, lost])
    assert (outcome.expected, outcome.actual, outcome.lost, outcome.records) == (4, 3, 1, 10)
    (sample,) = outcome.samples["lost"]
    assert sample == "alerts: (id=2, total=2.0)"
    assert "1 lost" in lost.sentence
    assert "what the topic alerts makes of them is not compared" in lost.sentence


@pytest.mark.parametrize(("bound", "wrong"), [(1e-3, 0), (1e-9, 1)])
def test_a_tolerance_holds_in_the_verdict_on_all_queries(bound: float, wrong: int) -> None:
    one = verdict("sums", [(1, 1.0)], [(1, 1.00001)], key=("id",), tolerances={"total": Tolerance(relative=bound)})
    assert together([one]).wrong == one.outcome.wrong == wrong


class ScriptRun:
    """A script's fork and its twin as their drivers left them: each query has one committed batch, captured."""

    def __init__(self, root: Path, foreach_batch: ForeachBatch = ForeachBatch.CAPTURE) -> None:
        self.fork, self.twin = (self._spec(root / name, foreach_batch) for name in ("fork", "twin"))
        self.home = root / "twins"
        self.format = "kafka"
        self.starts: list[Start] = []
        self._queries: list[str] = []

    def write(self, spec: StreamSpec, file: str, **columns: list[object]) -> None:
        """A file that the function of the query `alerts` wrote itself; without columns, a text file."""
        assert spec.fork is not None
        path = Path(spec.fork.output, "alerts/_writes", file)
        path.parent.mkdir(parents=True, exist_ok=True)
        if columns:
            parquet.write_table(pa.table(columns), path)
        else:
            path.write_text("1;a\n")

    def add(self, name: str, more: Mapping[str, object] | None = None, **columns: list[object]) -> None:
        """A query that handed over these rows, in the fork and in the twin.

        Args:
            more: other fields of the query as the fork recorded it.
        """
        self._queries.append(name)
        for spec in (self.fork, self.twin):
            checkpoint = Path(spec.checkpoint, name)
            for log, body in (("offsets", ""), ("commits", "{}")):
                (checkpoint / log).mkdir(parents=True)
                (checkpoint / log / "0").write_text(f"v1\n{body}\n", encoding="utf-8")
            assert spec.fork is not None
            capture(Path(spec.fork.output, name), "batch_id=0", **columns)
        query = ForkQuery(
            name=name,
            order=len(self._queries),
            checkpoint=f"{self.fork.checkpoint}/{name}",
            kind=OutputKind.CAPTURE,
            output=f"{self._output}/{name}",
            instead_of="the topic alerts",
            format=self.format,
        )
        write_document(Path(self._output, INDEX, f"{name}.json"), asdict(query) | dict(more or {}))
        assert self.twin.fork is not None
        write_document(Path(self.twin.fork.output, INDEX, f"{name}.json"), asdict(query))

    def report(self, *key: str, tolerance: Mapping[str, float] | None = None) -> TwinReport:
        """The verdict on the fork with `verification.key` and `verification.tolerance`."""
        view = ForkView(
            stream=self.fork.name,
            origin=self.fork.name,
            checkpoint=self.fork.checkpoint,
            output=None,
            batch=None,
            unseen=0,
            batches_left=None,
            input_digest="",
            oracles=(OracleKind.TWIN,),
            spec=self.fork,
        )
        verification = VerificationSpec(key=key, tolerance=tolerance or {})
        starts = dict.fromkeys(self._queries, self.starts)
        return ScriptWitness(view, self.home, verification, starts, within=1.0).report()

    def done(self) -> Execution:
        """What Spark reports of the twin's batches."""
        facts = {name: {"records": 2, "plan": ""} for name in self._queries}
        return Execution(seconds={}, records=2, plan=json.dumps(facts))

    @property
    def index(self) -> Path:
        """The folder with what the fork recorded of its queries."""
        return Path(self._output, INDEX)

    @property
    def _output(self) -> str:
        assert self.fork.fork is not None
        return self.fork.fork.output

    @staticmethod
    def _spec(place: Path, foreach_batch: ForeachBatch) -> StreamSpec:
        script = ScriptFork(output=str(place / "output"), foreach_batch=foreach_batch)
        (place / "output" / INDEX).mkdir(parents=True)
        return StreamSpec(name="orders", job="script.py", checkpoint=str(place / "checkpoint"), fork=script)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScriptRun:
    """Spark, which executes the twin, is replaced by what it leaves."""
    return patched(ScriptRun(tmp_path), tmp_path, monkeypatch)


@pytest.fixture
def calling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScriptRun:
    """The same of a fork that calls the function of its one query."""
    made = ScriptRun(tmp_path, ForeachBatch.RUN)
    made.format = "foreachbatch"
    made.add("alerts", id=[1, 2])
    return patched(made, tmp_path, monkeypatch)


def patched(made: ScriptRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScriptRun:
    twin = Twin(spec=made.twin, places=Places.under(str(tmp_path)), run=made.fork, folder=tmp_path)
    monkeypatch.setattr(making, "make", lambda *args, **named: twin)
    monkeypatch.setattr(comparison, "execute", lambda *args, **named: made.done())
    return made


@pytest.mark.parametrize(("manifest", "problems"), [(None, 1), (0, 0)])
def test_a_watermark_stays_where_it_was_only_in_a_batch_that_a_start_found_written(
    run: ScriptRun, manifest: int | None, problems: int
) -> None:
    run.add("sums", id=[1, 2])
    moved = {"nextBatchWatermarkMs": 5_000}
    Path(run.twin.checkpoint, "sums/commits/0").write_text(f"v1\n{json.dumps(moved)}\n")
    run.starts = [Start(at=1.0, planned=0, committed=None, sink=manifest)]
    found = run.report("id").outcome.problems
    assert len(found) == problems
    assert all("after batch 0 it is 0 ms, and 5000 ms in the twin" in problem for problem in found)


def test_the_declared_key_holds_for_each_query_that_has_its_columns(run: ScriptRun) -> None:
    run.add("alerts", order_id=[1, 2], total=[5, 5])
    run.add("totals", day=["mo", "tu"], total=[5, 5])
    report = run.report("order_id")
    assert report.outcome.exactly_once
    assert f"alerts: rows are identified by order_id ({DECLARED})" in report.key_from
    assert f"totals: {WHOLE}" in report.key_from


def test_a_declared_key_that_no_query_has_is_an_error_that_names_the_columns(run: ScriptRun) -> None:
    run.add("alerts", order_id=[1, 2])
    with pytest.raises(VerificationError, match=r"no query of the script has all columns .* order_id, shop") as raised:
        run.report("order_id", "shop")
    assert "alerts has batch, order_id" in raised.value.expected


def test_a_declared_key_that_does_not_identify_a_row_is_an_error_that_names_the_query(run: ScriptRun) -> None:
    run.add("alerts", order_id=[1, 1])
    with pytest.raises(VerificationError, match="the query alerts, the declared key order_id does not"):
        run.report("order_id")


def test_a_tolerance_holds_for_the_queries_that_have_its_column(run: ScriptRun) -> None:
    run.add("alerts", order_id=[1, 2], total=[5.0, 5.0])
    run.add("plain", text=["a", "b"])
    assert run.report("order_id", tolerance={"total": 0.1}).outcome.exactly_once


@pytest.mark.parametrize(("key", "column"), [(("order_id",), "totl"), ((), "total")])
def test_a_tolerance_that_would_be_ignored_is_an_error(run: ScriptRun, key: tuple[str, ...], column: str) -> None:
    run.add("alerts", order_id=[1, 2], total=[5.0, 5.0])
    with pytest.raises(VerificationError, match=f"names {column}, and no query"):
        run.report(*key, tolerance={column: 0.1})


def test_a_problem_of_one_query_is_a_problem_of_the_verdict() -> None:
    outcome = together([verdict("alerts", [(1, 1.0)], [(1, 1.0)], problems=("batch 7 was planned",))])
    assert outcome.problems == ("alerts: batch 7 was planned",)
    assert not outcome.exactly_once


def test_a_query_that_compared_no_row_does_not_count_as_proven(run: ScriptRun) -> None:
    run.add("alerts", id=[])
    run.add("plain", id=[1, 2])
    report = run.report()
    assert report.outcome.exactly_once
    assert report.unproven == ("not proven: the query alerts, which wrote no row",)


def test_what_the_query_does_not_keep_or_no_one_checks_is_said(run: ScriptRun) -> None:
    source = {"format": "json", "path": "/in", "topic": None, "line": None, "options": {"maxFileAge": "1h"}}
    run.add("plain", more={"sources": [source]}, id=[1, 2])
    run.add("shown", more={"kind": "nothing", "output": None, "format": "console"}, id=[1])
    report = run.report()
    assert report.unproven == (
        "not checked: which files of /in were read (the script sets maxFileAge), by the query plain",
        "not compared: the query shown, which writes to console and keeps no output",
    )


def test_a_later_start_that_reads_something_else_is_a_deviation(run: ScriptRun) -> None:
    run.add("plain", more={"changed": ["the option pathGlobFilter of /in is 00*, and was not set"]}, id=[1, 2])
    (problem,) = run.report().outcome.problems
    assert problem == (
        "plain: another start of the script declared other sources: "
        "the option pathGlobFilter of /in is 00*, and was not set"
    )


def test_a_query_that_the_last_start_did_not_start_is_a_deviation(run: ScriptRun) -> None:
    run.add("plain", more={"life": 2}, id=[1, 2])
    run.add("alerts", more={"life": 1}, id=[1])
    assert run.report().outcome.problems == (
        "alerts: only 1 of 2 starts of the script started this query, and not the last one",
    )


def test_a_query_that_the_twin_alone_started_is_a_deviation(run: ScriptRun) -> None:
    run.add("plain", id=[1, 2])
    run.add("alerts", id=[1])
    Path(run.index, "alerts.json").unlink()
    assert run.report().outcome.problems == ("alerts: no start of the fork started this query, and the twin did",)


def test_a_batch_that_the_function_wrote_twice_is_found_in_its_own_files(calling: ScriptRun) -> None:
    """The rows that it was handed are the same in both."""
    for spec in (calling.fork, calling.twin):
        calling.write(spec, "output/alerts/part-0.parquet", id=[1, 2])
    assert calling.report().outcome.exactly_once
    calling.write(calling.fork, "output/alerts/part-1.parquet", id=[1, 2])
    outcome = calling.report().outcome
    assert outcome.duplicated + outcome.unexpected == 2
    assert "the files that it wrote to output/alerts" in outcome.notes["queries"]["alerts"]
    assert "2 " in outcome.notes["queries"]["alerts/_writes/output/alerts"]


def test_a_folder_that_only_the_twin_wrote_is_lost(calling: ScriptRun) -> None:
    calling.write(calling.twin, "output/alerts/day=1/part-0.parquet", id=[1, 2])
    assert calling.report().outcome.lost == 2


def test_lines_of_text_are_compared_and_what_cannot_be_read_back_is_named(calling: ScriptRun) -> None:
    for spec in (calling.fork, calling.twin):
        calling.write(spec, "csv/part-0.csv")
        calling.write(spec, "avro/part-0.avro")
        calling.write(spec, "delta/part-0.parquet", id=[1])
        calling.write(spec, "delta/_delta_log/0.json")
        calling.write(spec, "csv/_SUCCESS")
    calling.write(calling.fork, "csv/part-1.csv")
    outcome = calling.report().outcome
    assert outcome.duplicated + outcome.unexpected == 1
    assert (
        "to csv, and not those in avro, delta; what it wrote without Spark is not" in outcome.notes["queries"]["alerts"]
    )


def test_a_function_that_is_not_called_has_nothing_to_compare(run: ScriptRun) -> None:
    run.format = "foreachbatch"
    run.add("alerts", id=[1])
    run.write(run.fork, "output/alerts/part-0.parquet", id=[1])
    outcome = run.report().outcome
    assert outcome.exactly_once
    assert "makes of them is not compared" in outcome.notes["queries"]["alerts"]
