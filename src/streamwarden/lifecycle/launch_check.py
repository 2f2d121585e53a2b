"""Decides before a launch whether the store, the checkpoint and the output fit each other. Pure.

Spark does not compare them. A query that begins with a new checkpoint in an old output skips every batch that the
output's manifest lists, or writes each row a second time, and reports no error.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from streamwarden.checkpoint.diagnosis.damage import NEW_PLACES
from streamwarden.checkpoint.formats.logs import LogPosition

BEGAN_ANEW = "began_anew"
"""Kind of the event of a driver that was launched although a check refused it; `by`, `reason` and `observed`."""


class Mismatch(StrEnum):
    """Kind of a contradiction between the store, the checkpoint and the output."""

    CHECKPOINT_GONE = "checkpoint_gone"
    OTHER_QUERY = "other_query"
    OLDER_CHECKPOINT = "older_checkpoint"
    OUTPUT_AHEAD = "output_ahead"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownQuery:
    """The query that last ran on a checkpoint, as the store knows it. `committed`: its newest committed batch."""

    query_id: str
    committed: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputEnd:
    """The newest batch that an output has.

    Args:
        where: the manifest, the table or the topic.
        consequence: what happens to the batches up to it if the query plans them again.
        give_way: how a person makes room in the output for `--begin-anew`; empty: the launch itself does.
    """

    batch: int
    where: str
    consequence: str
    give_way: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchFacts:
    """What is known of a query before its launch.

    Args:
        found: the logs of the checkpoint.
        known: the query that the store knows on this checkpoint.
        own_committed: newest committed batch of the query that `found` names, which may have run elsewhere before.
        output: None if it has no batch, or cannot tell.
    """

    checkpoint: str
    found: LogPosition
    known: KnownQuery | None = None
    own_committed: int | None = None
    output: OutputEnd | None = None

    @property
    def newest(self) -> int:
        """The newest batch that the checkpoint has planned or committed; -1 if there is none."""
        return max(_number(self.found.planned), _number(self.found.committed))


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A contradiction because of which a launch is refused. `first`: the batch that the query would begin with."""

    kind: Mismatch
    observed: str
    expected: str
    where: str
    first: int
    restore: str
    give_way: str = ""

    @property
    def next_step(self) -> str:
        """The three ways on."""
        anew = "start it with `--begin-anew REASON` (in Airflow: `begin_anew` of start_stream), which is recorded"
        return (
            f"{self.restore}; or give the stream {NEW_PLACES}; or "
            f"{f'{self.give_way}, then ' if self.give_way else ''}{anew}"
        )


def refusal(queries: Sequence[LaunchFacts]) -> Refusal | None:
    """The first contradiction; None: every query goes on where it stopped, or begins in an empty output."""
    return next((found for facts in queries for found in _contradictions(facts)), None)


def _contradictions(facts: LaunchFacts) -> Iterator[Refusal]:
    """The gravest first. What the store does not know refuses nothing: it may be new, or pruned."""
    known, query_id = facts.known, facts.found.query_id
    if known is not None and known.committed is not None:
        if facts.newest < 0:
            yield _gone(facts, known, known.committed)
        elif query_id is not None and query_id != known.query_id:
            yield _other_query(facts, known, known.committed)
    known_batch = _number(facts.own_committed)
    if query_id is not None and known_batch > facts.newest:
        yield _older(facts, known_batch)
    if facts.output is not None and facts.output.batch > facts.newest:
        yield _behind(facts, facts.output)


def _gone(facts: LaunchFacts, known: KnownQuery, committed: int) -> Refusal:
    return _refusal(
        facts,
        Mismatch.CHECKPOINT_GONE,
        f"the checkpoint is gone or empty, although query {known.query_id} has committed batch {committed} in it: the "
        "stream would read its input from the beginning",
        f"a checkpoint with batch {committed}",
        restore="restore the checkpoint, or mount the storage that holds it",
    )


def _other_query(facts: LaunchFacts, known: KnownQuery, committed: int) -> Refusal:
    return _refusal(
        facts,
        Mismatch.OTHER_QUERY,
        f"the checkpoint belongs to query {facts.found.query_id} and has batch {facts.newest}, but query "
        f"{known.query_id} ran on it last and committed batch {committed}",
        f"the checkpoint of query {known.query_id}",
        restore="put the stream's own checkpoint back",
    )


def _older(facts: LaunchFacts, committed: int) -> Refusal:
    return _refusal(
        facts,
        Mismatch.OLDER_CHECKPOINT,
        f"the checkpoint ends with batch {facts.newest}, but its query has committed batch {committed}: it is an older "
        "copy",
        f"a checkpoint with batch {committed}",
        restore="restore the newest copy of the checkpoint",
    )


def _behind(facts: LaunchFacts, output: OutputEnd) -> Refusal:
    begins = "has no batch yet" if facts.newest < 0 else f"ends with batch {facts.newest}"
    return _refusal(
        facts,
        Mismatch.OUTPUT_AHEAD,
        f"the checkpoint {begins}, but {output.where} has batches up to {output.batch}: {output.consequence}",
        f"an output without batches after {facts.newest}" if facts.newest >= 0 else "an empty output",
        restore=f"restore the checkpoint that has planned batch {output.batch}",
    )


def _refusal(facts: LaunchFacts, kind: Mismatch, observed: str, expected: str, *, restore: str) -> Refusal:
    output = facts.output
    in_the_way = output is not None and output.batch > facts.newest
    return Refusal(
        kind=kind,
        observed=observed,
        expected=expected,
        where=facts.checkpoint,
        first=facts.newest + 1,
        restore=restore,
        give_way=output.give_way if output is not None and in_the_way else "",
    )


def _number(batch: int | None) -> int:
    """-1 instead of None."""
    return -1 if batch is None else batch
