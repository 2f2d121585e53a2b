"""What Spark does with a change of a job on an old checkpoint, change by change: the table of compatibility. Pure.

Each row was tried with Spark 4.3; `tests/spark/proofs/test_upgrade_rules.py` tries them all again.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from streamwarden.lifecycle.upgrades.changes import What


class Outcome(StrEnum):
    """What Spark does with a change."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    WRONG = "accepted, and wrong"  # the old state is read under a meaning that it does not have
    IGNORED = "accepted, and ignored"  # the checkpoint's own value stays in force


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A change, and what Spark does with it.

    Args:
        code: for tests and links; it never changes.
        change: in words.
        error_class: with which Spark refuses it; None: it does not.
        what_to_do: to get there all the same, or to see that it is right.
        shows: what of it the preflight finds in the state; empty: nothing.
    """

    code: str
    change: str
    outcome: Outcome
    what_to_do: str
    error_class: str | None = None
    shows: frozenset[What] = field(default=frozenset())


_ANEW: Final = (
    "undo it, or let the new version begin as another stream, with a new checkpoint and a new output, from the input "
    "that is still kept"
)
_KEY: Final = "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE"
_VALUE: Final = "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE"
_OPERATORS: Final = "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"
_AVRO: Final = "STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION"


def _rule(
    code: str, change: str, outcome: Outcome, what_to_do: str, *shows: What, error_class: str | None = None
) -> Rule:
    return Rule(
        code=code,
        change=change,
        outcome=outcome,
        what_to_do=what_to_do,
        error_class=error_class,
        shows=frozenset(shows),
    )


RULES: Final[tuple[Rule, ...]] = (
    _rule(
        "filter_added",
        "a filter before the operator is added or removed",
        Outcome.ACCEPTED,
        "nothing: what the old filter let into the state stays there",
    ),
    _rule(
        "column_added",
        "a column of the output is added after the operator",
        Outcome.ACCEPTED,
        "let readers know: older files of the output do not have it",
    ),
    _rule(
        "static_join_added",
        "a join with a table that is not a stream is added",
        Outcome.ACCEPTED,
        "nothing: such a join keeps no state",
    ),
    _rule(
        "key_changed",
        "an aggregation groups by more, fewer or other columns, of another type",
        Outcome.REFUSED,
        _ANEW,
        What.FIELD_APPEARS,
        What.FIELD_VANISHES,
        What.FIELD_TYPE,
        error_class=_KEY,
    ),
    _rule(
        "key_replaced",
        "an aggregation groups by another column of the same type",
        Outcome.WRONG,
        "undo it: groups of the old column are continued as groups of the new one. A column that has only got another "
        "name is right",
        What.FIELD_NAME,
    ),
    _rule(
        "aggregate_added",
        "an aggregate is added or removed (`count` beside `sum`)",
        Outcome.REFUSED,
        _ANEW,
        What.FIELD_APPEARS,
        What.FIELD_VANISHES,
        error_class=_VALUE,
    ),
    _rule(
        "aggregate_replaced",
        "an aggregate is replaced by one of the same type (`sum` by `max`)",
        Outcome.WRONG,
        "undo it: the new function goes on from what the old one has computed",
        What.FIELD_NAME,
    ),
    _rule(
        "aggregate_widened",
        "an aggregate gets a wider type (`max` of an INT, then of a BIGINT)",
        Outcome.REFUSED,
        _ANEW + "; or cast after the aggregation",
        What.FIELD_TYPE,
        error_class=_VALUE,
    ),
    _rule(
        "window_changed",
        "a window gets another length or slide",
        Outcome.WRONG,
        "undo it: windows that are open in the state are closed with the old length, beside those of the new one",
    ),
    _rule(
        "operator_added",
        "a stateful operator is added (a deduplication before the aggregation)",
        Outcome.REFUSED,
        _ANEW,
        What.OPERATOR_APPEARS,
        error_class=_OPERATORS,
    ),
    _rule(
        "operator_removed",
        "a stateful operator is removed",
        Outcome.REFUSED,
        _ANEW,
        What.OPERATOR_VANISHES,
        error_class=_OPERATORS,
    ),
    _rule(
        "first_operator",
        "a query that kept no state gets a stateful operator",
        Outcome.REFUSED,
        _ANEW,
        What.OPERATOR_APPEARS,
        error_class="STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY",
    ),
    _rule(
        "deduplication_changed",
        "a deduplication compares other columns, of another type",
        Outcome.REFUSED,
        _ANEW,
        What.FIELD_APPEARS,
        What.FIELD_VANISHES,
        What.FIELD_TYPE,
        error_class=_KEY,
    ),
    _rule(
        "stream_join_added",
        "a join with another stream is added",
        Outcome.REFUSED,
        _ANEW,
        error_class="STREAM_FAILED",
    ),
    _rule(
        "source_added",
        "another source is added (`union`)",
        Outcome.REFUSED,
        "undo it, or let another stream read that source, and write to the same topic",
        error_class="STREAM_FAILED",
    ),
    _rule(
        "watermark_longer",
        "the watermark's delay gets longer",
        Outcome.ACCEPTED,
        "expect a pause: the watermark never goes back, so that windows close again when the longer delay is over",
    ),
    _rule(
        "watermark_shorter",
        "the watermark's delay gets shorter",
        Outcome.ACCEPTED,
        "expect a jump: with the first batch windows close that would have waited, and more rows are late",
    ),
    _rule(
        "shuffle_partitions",
        "`state.shuffle_partitions` is changed",
        Outcome.IGNORED,
        "set it back: the checkpoint has fixed it",
    ),
    _rule(
        "backend",
        "`state.backend` is changed",
        Outcome.IGNORED,
        "set it back: the checkpoint has fixed it",
    ),
    _rule(
        "encoding",
        "`state.encoding` of a `transformWithState` is changed",
        Outcome.IGNORED,
        "set it back: the checkpoint has fixed it",
    ),
    _rule(
        "variable_added",
        "a state variable of `transformWithState` is added",
        Outcome.ACCEPTED,
        "nothing: it is empty for every key at first",
        What.VARIABLE_APPEARS,
    ),
    _rule(
        "variable_removed",
        "a state variable of `transformWithState` is removed",
        Outcome.ACCEPTED,
        "be sure: what it held is not read any more",
        What.VARIABLE_VANISHES,
    ),
    _rule(
        "variable_kind",
        "a state variable becomes another kind (a value a list)",
        Outcome.REFUSED,
        "give it a new name, and read the old variable where the new one is empty",
        What.VARIABLE_KIND,
        error_class="STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE",
    ),
    _rule(
        "processor_key",
        "a `transformWithState` groups by a column of another type",
        Outcome.REFUSED,
        _ANEW,
        What.FIELD_TYPE,
        What.FIELD_APPEARS,
        error_class=_KEY,
    ),
    _rule(
        "unsafe_field_added",
        "a field of a variable is added, removed or widened, without Avro",
        Outcome.REFUSED,
        "give the variable a new name with the new fields, and read the old one where the new one is empty; a new "
        "stream should have `state.encoding: avro`",
        What.FIELD_APPEARS,
        What.FIELD_VANISHES,
        What.FIELD_TYPE,
        error_class=_VALUE,
    ),
    _rule(
        "unsafe_fields_moved",
        "two fields of one type change places in a variable, without Avro",
        Outcome.WRONG,
        "undo it: each is read as the other one",
        What.FIELD_NAME,
    ),
    _rule(
        "avro_field_added",
        "a field of a variable is added, with Avro",
        Outcome.ACCEPTED,
        "expect null in the rows that are there",
        What.FIELD_APPEARS,
    ),
    _rule(
        "avro_field_removed",
        "a field of a variable is removed, with Avro",
        Outcome.ACCEPTED,
        "be sure: what the rows hold of it is skipped. A new name is one field removed and another one added: move the "
        "value in the job, while both exist",
        What.FIELD_VANISHES,
    ),
    _rule(
        "avro_field_widened",
        "a field of a variable is widened (INT to BIGINT), with Avro",
        Outcome.ACCEPTED,
        "be sure: there is no way back to the narrower type but a savepoint",
        What.FIELD_TYPE,
    ),
    _rule(
        "avro_fields_moved",
        "fields of a variable change places, with Avro",
        Outcome.ACCEPTED,
        "nothing: fields are known by their names",
        What.FIELDS_MOVED,
    ),
    _rule(
        "avro_field_narrowed",
        "a field of a variable is narrowed, with Avro",
        Outcome.REFUSED,
        "give the field a new name, and read the old one while it exists",
        What.FIELD_TYPE,
        error_class=_AVRO,
    ),
    _rule(
        "avro_field_retyped",
        "a field of a variable gets another type (INT to STRING), with Avro",
        Outcome.REFUSED,
        "give the field a new name, and read the old one while it exists",
        What.FIELD_TYPE,
        error_class=_AVRO,
    ),
)
