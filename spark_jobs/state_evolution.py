"""What each customer has spent, by a job whose state changed its form, and kept what it knew: versions 1 and 2 in one.

    purchases  {"customer": "c-7", "amount": 1250}   in cents; below zero: money given back
    args       version=1 or version=2 (the default), of the code and of its state. The upgrade is a stop, this change
               in the stream's file, and a start, on the same checkpoint.

State, by customer, encoded as Avro (`state.encoding: avro`):
    account  value, version 1   entries INT,    points INT, refunds INT
             value, version 2   entries BIGINT, points INT, spent BIGINT, largest INT
    widened  entries   INT to BIGINT: by Spark, in each row that it reads
    gained   largest   null in a row of version 1; from version 2 on the largest purchase, of those it has seen
    lost     refunds   what the rows hold of it is skipped
    renamed  points, to spent (and widened). Spark knows no renaming: it would take that for one field lost and another
                       gained, and the amount would be gone. So version 2 keeps the old name and adds the new one, and
                       the job moves the value over when it first touches a customer (`migrated`)
What bounds it: the number of customers, some 40 bytes each; what they spent is never forgotten.

A version 3 may drop `points` only when no row of version 1 is left, or those customers begin at nothing. A customer who
does not come is not touched, so ask the checkpoint first (`spark.read.format("statestore")` with the option
`stateVarName` `account`, where points is not null). There is no way back to version 1, whose entries are narrower: for
that, keep a copy of the checkpoint folder.

What Spark 4.3 allows of Avro-encoded state, tried on value, list and map state, with and without TTL: to add a field
(null in the rows that are there), to remove, to reorder, and to widen one (INT to BIGINT or DOUBLE). It refuses any
other change of a type (STRING to INT, BIGINT to INT, INT to STRING), and a lost name that comes back with another type,
for each row is read by the schema that wrote it. A state variable keeps at most 16 schemas. Every field must be
nullable. A refused change ends the driver before it has run a batch (STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION); the
exit names the field, and no restart is tried. Undo the change, or give the field a new name; the checkpoint is as it
was. Without Avro (`unsaferow`) any change in the number or types of fields is refused, but names are not compared: two
fields of one type that changed places are read as each other. The encoding is that of the checkpoint's first batch:
another one in the stream's file is ignored silently.

Why custom state: native aggregations keep their state in Spark's own form, and none of this is possible there: a
sum more or less is another query with a new checkpoint.

Guarantee, end to end: exactly once, over the upgrade too. Files, state and the parquet sink's manifest all go by the
batch, and one that was cut in version 1 runs again in version 2. Readers must honour the manifest (`_spark_metadata`).

Lines that do not fit the schema, or lack customer or amount, are counted and kept aside in the stream's quarantine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from streamwarden.errors import ConfigError
from streamwarden.spark.sources import read_rows
from streamwarden.stream import StreamSpec

SCHEMA = "customer STRING, amount INT"
STATE = {
    1: "entries INT, points INT, refunds INT",
    2: "entries BIGINT, points INT, spent BIGINT, largest INT",
}
OUTPUT = "customer STRING, entries BIGINT, spent BIGINT, refunds BIGINT, largest INT, version INT, added BIGINT"


def build(spark: SparkSession, spec: StreamSpec) -> DataFrame:
    """A row for each customer and batch with purchases of theirs. Key: customer, entries (their number until now).

    `refunds` is null from version 2 on, `largest` before it. `added`: entries of this batch.
    """
    accounts = Accounts(version(spec.args, spec.file))
    return (
        read_rows(spark, spec, SCHEMA, required=("customer", "amount"))
        .groupBy("customer")
        .transformWithState(accounts, OUTPUT, "Append", "None")
    )


# The logic of each version, without Spark.


class Account1(NamedTuple):
    """Version 1. `points`: cents spent, less refunds."""

    entries: int = 0
    points: int = 0
    refunds: int = 0

    def booked(self, amounts: Sequence[int]) -> Account1:
        """The account after these amounts, in any order."""
        given_back = sum(amount < 0 for amount in amounts)
        return Account1(self.entries + len(amounts), self.points + sum(amounts), self.refunds + given_back)

    def output(self) -> dict[str, int | None]:
        """The columns of a row that are the version's own."""
        return {"spent": self.points, "refunds": self.refunds, "largest": None}


class Account2(NamedTuple):
    """Version 2. `points` is what version 1 left, until it is `migrated`; `spent` is null until then."""

    entries: int = 0
    points: int | None = None
    spent: int | None = None
    largest: int | None = None

    def migrated(self) -> Account2:
        """With what stood under the old name under the new one."""
        if self.spent is not None:
            return self
        return self._replace(spent=self.points or 0, points=None)

    def booked(self, amounts: Sequence[int]) -> Account2:
        """The account after these amounts, in any order."""
        known = self.migrated()
        assert known.spent is not None
        largest = max([*(amount for amount in amounts if amount > 0), known.largest or 0])
        return Account2(known.entries + len(amounts), None, known.spent + sum(amounts), largest or None)

    def output(self) -> dict[str, int | None]:
        """The columns of a row that are the version's own."""
        return {"spent": self.spent, "refunds": None, "largest": self.largest}


ACCOUNT: Final[dict[int, type[Account1 | Account2]]] = {1: Account1, 2: Account2}


def version(args: Sequence[str], where: str = "") -> int:
    """The version of the code, from `version=N`. Raises ConfigError."""
    found = 2
    for arg in args:
        name, _, number = arg.partition("=")
        if name != "version" or number not in map(str, STATE):
            raise ConfigError(
                f"args: {arg!r}",
                expected=f"version=N, N one of {', '.join(map(str, STATE))}",
                where=where,
                next_step="correct `args` in the stream's file",
            )
        found = int(number)
    return found


# Between the logic and Spark.


class Accounts(StatefulProcessor):
    """Keeps the account of each customer in the state store."""

    def __init__(self, number: int) -> None:
        self._version = number

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called by Spark, once in each task."""
        self._account = handle.getValueState("account", STATE[self._version])

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803 (Spark's)
        """Called by Spark with all purchases of a customer in a batch."""
        amounts = [row.amount for row in rows]
        # Asked first: Spark writes a line to its log for each get() of a value that is not there.
        value = self._account.get() if self._account.exists() else None
        account = ACCOUNT[self._version](*(value or ())).booked(amounts)
        self._account.update(tuple(account))
        written = {"entries": account.entries, **account.output(), "version": self._version, "added": len(amounts)}
        return iter([Row(customer=key[0], **written)])
