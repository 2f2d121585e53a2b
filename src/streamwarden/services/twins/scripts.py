"""Compares the fork of a script with a twin: each of its queries by itself, under its name."""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Self

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.formats.layout import COMMITS, batch_ids, list_or_empty
from streamwarden.checkpoint.formats.logs import log_position
from streamwarden.drills.records.sections import VerificationSpec
from streamwarden.drills.records.twin import TwinReport
from streamwarden.drills.records.types import ForkView
from streamwarden.errors import VerificationError
from streamwarden.lifecycle.forks.scripts import ForkQuery, OutputKind
from streamwarden.lifecycle.forks.started import fork_queries
from streamwarden.services.forks.scripts import files_read_again, require_unchanged, unread
from streamwarden.services.twins.comparing import compare, unstable_columns
from streamwarden.services.twins.comparison import run_twin, watermark_problems, watermarks_in
from streamwarden.services.twins.keys import DECLARED, RowKey, find_key
from streamwarden.services.twins.plan_replay import batches_of
from streamwarden.services.twins.running import Twin
from streamwarden.services.twins.script_starts import never_started, not_checked, start_problems
from streamwarden.sinks.fork_output import AGAIN_NOTE, read_query
from streamwarden.sinks.output import Output
from streamwarden.sinks.own_writes import folders_of, format_in
from streamwarden.stream.spec import ForeachBatch, StreamSpec
from streamwarden.units import Seconds, format_count
from streamwarden.verification.comparing.starts import Start, restarts
from streamwarden.verification.reconciliation import KINDS, Reconciliation
from streamwarden.verification.tolerance import Tolerance

QUERIES: Final = "queries"
"""The note with one sentence for each query."""

NOT_COMPARED: Final = Reconciliation(expected=0, actual=0, lost=0, duplicated=0, unexpected=0, wrong=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryVerdict:
    """One query against the twin's.

    Args:
        batches: the committed ones; key: by which rows were compared; left_out: columns that were not.
        records: input records of the batches.
        mine: its output.
        ran: the function of the script was called, too; writes: the folders with files of it that are compared;
            unread_writes: those that are not, for their format.
    """

    query: ForkQuery
    batches: tuple[int, ...]
    key: RowKey
    records: int
    problems: tuple[str, ...]
    mine: Output
    left_out: tuple[str, ...] = ()
    outcome: Reconciliation = NOT_COMPARED
    ran: bool = False
    writes: tuple[str, ...] = ()
    unread_writes: tuple[str, ...] = ()

    def compared(self, its: Output, tolerances: Mapping[str, Tolerance], left_out: tuple[str, ...] = ()) -> Self:
        """The verdict with its rows compared to a twin's."""
        outcome = compare(
            its,
            self.mine,
            self.key,
            records=self.records,
            tolerances=tolerances,
            left_out=left_out,
            problems=self.problems,
        )
        return replace(self, left_out=left_out, outcome=outcome)

    @property
    def is_empty(self) -> bool:
        """No row was compared: neither the fork nor the twin wrote one."""
        return self.outcome.expected == self.outcome.actual == 0

    @property
    def sentence(self) -> str:
        """The result as a sentence."""
        outcome = self.outcome
        what = "the rows that it handed over" if self.query.kind is OutputKind.CAPTURE else "its files"
        counts = ", ".join(f"{count} {kind}" for kind, count in outcome.kinds.items())
        batches = format_count(len(self.batches), "batch")
        parts = [f"{counts} in {outcome.expected:,} rows from {outcome.records:,} records, {batches}"]
        again = outcome.notes.get(AGAIN_NOTE)
        if again:
            parts.append(f"batches executed again: {again}; an append writes the rows of such a batch twice")
        if self.query.kind is OutputKind.CAPTURE:
            parts.append(self._of_function)
        if self.query.kind is OutputKind.WRITES:
            return f"{self.query.instead_of}: {'; '.join(parts)}"
        return f"{what}, in place of {self.query.instead_of}: {'; '.join(parts)}"

    @property
    def _of_function(self) -> str:
        """How far what becomes of the captured rows is compared."""
        if not self.ran:
            return f"what {self.query.instead_of} makes of them is not compared"
        compared = f"the files that it wrote to {', '.join(self.writes)}" if self.writes else "no file of it"
        unread = f", and not those in {', '.join(self.unread_writes)}" if self.unread_writes else ""
        return f"of {self.query.instead_of} is compared: {compared}{unread}; what it wrote without Spark is not"


@dataclass
class ScriptWitness:
    """Compares the fork of a script, whose drivers have ended, with its twins.

    Args:
        home: the folder of the twins.
        starts: of the fork's drivers, as recorded for each query: by its name.
        within: how long each twin may take.
    """

    fork: ForkView
    home: Path
    verification: VerificationSpec
    starts: Mapping[str, Sequence[Start]]
    within: Seconds

    def report(self) -> TwinReport:
        """The comparison of each query with a twin, and with a second one if a row differs.

        Raises VerificationError if the twin cannot be made or run, no query has an output, the batches cannot be
        repeated, or the declared key or a tolerance fits no query.
        """
        began = time.monotonic()
        queries = self._judged()
        twin, done = self._run(1)
        alone = [self._verdict(query, twin.spec, done) for query in queries]
        verdicts = [each for verdict in alone for each in self._with_writes(verdict, twin.spec)]
        self._require_key_used(verdicts)
        self._require_tolerances_used(verdicts)
        twins = 1
        if any(verdict.outcome.rows_differ for verdict in verdicts):
            twins = 2
            other, _ = self._run(twins)
            verdicts = [self._again(verdict, twin.spec, other.spec) for verdict in verdicts]
        started = fork_queries(self.fork.spec)
        batches = [batch for verdict in verdicts for batch in verdict.batches]
        left_out = tuple(f"{verdict.query.name}.{name}" for verdict in verdicts for name in verdict.left_out)
        return TwinReport(
            first=min(batches),
            last=max(batches),
            seconds=round(time.monotonic() - began, 1),
            twins=twins,
            key=(),
            key_from="; ".join(f"{verdict.query.name}: {verdict.key}" for verdict in verdicts),
            left_out=left_out,
            alone=True,
            watermarks=max((watermarks_in(facts["plan"]) for facts in done.values()), default=0),
            unproven=(
                *not_checked(started),
                *(
                    f"not proven: the query {verdict.query.name}, which wrote no row"
                    for verdict in verdicts
                    if verdict.is_empty
                ),
            ),
            outcome=together(verdicts, never_started(started, fork_queries(twin.spec))),
        )

    def _judged(self) -> list[ForkQuery]:
        queries = [query for query in fork_queries(self.fork.spec) if query.output is not None]
        if not queries:
            raise VerificationError(
                "no query of the script keeps an output",
                expected="a query that writes files, a table or a topic, or passes its rows to a function",
                where=self.fork.spec.job,
                next_step="drill a stream with an output: there is nothing that a drill could prove here",
            )
        return queries

    def _run(self, number: int) -> tuple[Twin, Mapping[str, Any]]:
        twin, done = run_twin(self.fork, self.home, number, (), self.within)
        return twin, json.loads(done.plan)

    def _verdict(self, query: ForkQuery, twin: StreamSpec, done: Mapping[str, Any]) -> QueryVerdict:
        place = open_path(query.checkpoint)
        batches = batches_of(place, None) if batch_ids(list_or_empty(place / COMMITS)) else []
        its_query = in_twin(query, twin)
        mine, its = (_output(run, batches) for run in (query, its_query))
        facts = done.get(query.name, {"records": 0, "plan": ""})
        if its.problems:
            raise VerificationError(
                f"the output of the query {query.name} in the twin itself is broken: {its.problems[0]}",
                expected="an output without problems of a fork that no fault hits",
                where=str(its_query.output),
                next_step="run the drill again; if it comes back, report it with the script",
            )
        problems = []
        require_unchanged(query, batches, self.fork.spec.storage.connection)
        position = log_position(place)
        if position.gap:
            problems.append(f"batch {position.planned} was planned and never committed")
        if not batches:
            problems.append("no batch was ever committed")
        elif query.name not in done:
            problems.append("the script did not start this query in the twin")
        else:
            skipped = restarts(self.starts[query.name]).skipped
            problems += watermark_problems(place, open_path(its_query.checkpoint), batches, skipped, facts["plan"])
        problems += start_problems(query, fork_queries(self.fork.spec), fork_queries(twin))
        problems += [*_never_read(unread(query, query.listed)), *files_read_again(query, batches)]
        key = self._key(query, facts["plan"], its)
        verdict = QueryVerdict(
            query=query, batches=tuple(batches), key=key, records=facts["records"], problems=tuple(problems), mine=mine
        )
        return verdict.compared(its, self._tolerances(its, key))

    def _with_writes(self, verdict: QueryVerdict, twin: StreamSpec) -> Iterator[QueryVerdict]:
        """The verdict and, if the query's function ran, one on each folder of files that it wrote itself: see
        `sinks.own_writes`."""
        script = self.fork.spec.fork
        if script is None or script.foreach_batch is not ForeachBatch.RUN or not verdict.query.has_function:
            yield verdict
            return
        outputs = (str(verdict.query.output), str(in_twin(verdict.query, twin).output))
        folders = dict.fromkeys(folder for output in outputs for folder in folders_of(output))
        readable = [name for name in folders if any(format_in(output, name) is not None for output in outputs)]
        unread = tuple(name for name in folders if name not in readable)
        yield replace(verdict, writes=tuple(readable), unread_writes=unread, ran=True)
        for folder in readable:
            writes = verdict.query.writes(folder)
            mine, its = (_output(run, verdict.batches) for run in (writes, in_twin(writes, twin)))
            key = self._key(writes, "", its)
            written = replace(verdict, query=writes, key=key, mine=mine, problems=mine.problems)
            yield written.compared(its, self._tolerances(its, key))

    def _again(self, verdict: QueryVerdict, one: StreamSpec, other: StreamSpec) -> QueryVerdict:
        """The verdict without the columns in which two unbroken runs differ."""
        if not verdict.outcome.rows_differ:
            return verdict
        its, second = (_output(in_twin(verdict.query, twin), verdict.batches) for twin in (one, other))
        tolerances = self._tolerances(its, verdict.key)
        return verdict.compared(its, tolerances, unstable_columns(its, second, verdict.key, tolerances))

    def _key(self, query: ForkQuery, plan: str, its: Output) -> RowKey:
        """The declared key holds for each query whose output has all of its columns."""
        declared = self.verification.key if set(self.verification.key) <= set(its.columns) else ()
        try:
            return find_key(declared, (), plan, its)
        except VerificationError as error:
            raise VerificationError.of(error, f"in the output of the query {query.name}, ") from error

    def _require_key_used(self, verdicts: Sequence[QueryVerdict]) -> None:
        declared = self.verification.key
        if declared and not any(verdict.key.origin == DECLARED for verdict in verdicts):
            columns = "; ".join(
                f"{verdict.query.name} has {', '.join(verdict.mine.columns) or 'none'}" for verdict in verdicts
            )
            raise VerificationError(
                f"no query of the script has all columns of the declared key {', '.join(declared)}",
                expected=f"columns of one query's output: {columns}",
                where="verification.key of the drill's file",
                next_step="correct it, or remove it: the drill then finds a key of each query, or compares whole rows",
            )

    def _require_tolerances_used(self, verdicts: Sequence[QueryVerdict]) -> None:
        for name in self.verification.tolerance:
            if not any(verdict.key.has_value(name, verdict.mine) for verdict in verdicts):
                raise VerificationError(
                    f"verification.tolerance names {name}, and no query of the script has such a column beside a key",
                    expected="a column of a query whose rows are identified by a key, and which is not in the key",
                    where="verification.tolerance of the drill's file",
                    next_step="correct the name or remove it; where no key is found, declare `verification.key`",
                )

    def _tolerances(self, output: Output, key: RowKey) -> dict[str, Tolerance]:
        """The drill's tolerances for numbers of this query."""
        return {
            name: Tolerance(relative=bound)
            for name, bound in self.verification.tolerance.items()
            if key.has_value(name, output)
        }


def in_twin(query: ForkQuery, twin: StreamSpec) -> ForkQuery:
    """The query of the same name in a twin."""
    assert twin.fork is not None, "the twin of a script is the fork of one"
    return replace(
        query, checkpoint=f"{twin.checkpoint}/{query.name}", output=query.output and f"{twin.fork.output}/{query.name}"
    )


def _never_read(files: Sequence[str]) -> list[str]:
    count = format_count(len(files), "file")
    return (
        [f"{count} of the input {'was' if len(files) == 1 else 'were'} never read, such as {files[0]}"] if files else []
    )


def _output(query: ForkQuery, batches: Sequence[int]) -> Output:
    return read_query(query, batches) if batches else Output(columns=(), parts=[])


def together(verdicts: Sequence[QueryVerdict], problems: Iterable[str] = ()) -> Reconciliation:
    """The verdicts on all queries as one: the sums of their counts, and the problems of each under its name.

    Args:
        problems: of the script as a whole.
    """
    outcomes = {verdict.query.name: verdict.outcome for verdict in verdicts}
    counts = {
        name: sum(getattr(outcome, name) for outcome in outcomes.values()) for name in ("expected", "actual", *KINDS)
    }
    kinds = dict.fromkeys(kind for outcome in outcomes.values() for kind in outcome.samples)
    return Reconciliation(
        **counts,
        records=max((verdict.records for verdict in verdicts), default=0),  # the queries may read the same records
        samples={
            kind: tuple(_named({name: outcome.samples.get(kind, ()) for name, outcome in outcomes.items()}))
            for kind in kinds
        },
        problems=(*_named({name: outcome.problems for name, outcome in outcomes.items()}), *problems),
        notes={QUERIES: {verdict.query.name: verdict.sentence for verdict in verdicts}},
        evidence={name: outcome.evidence for name, outcome in outcomes.items() if outcome.evidence is not None},
    )


def _named(texts: Mapping[str, Iterable[str]]) -> Iterator[str]:
    return (f"{name}: {text}" for name, of_query in texts.items() for text in of_query)
