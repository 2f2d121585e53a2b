"""Conditions on the key of a row of state, as a person gives them."""

from collections.abc import Sequence
from functools import reduce
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import BooleanType, StructType

from streamwarden.errors import ConfigError
from streamwarden.lifecycle.surgery.rewriting import Keys
from streamwarden.lifecycle.time_travel.keys import wanted_fields
from streamwarden.spark.internals.exceptions import said
from streamwarden.spark.internals.plans import is_deterministic
from streamwarden.spark.state.columns import Leaf, as_text, leaves

KEY: Final = "key"
"""The name of the key in a condition."""


def has_texts(found: Sequence[Leaf], wanted: Sequence[str]) -> Column:
    """Whether the fields of a key are as `--key` gives them. Raises ConfigError for a field that the key lacks."""
    given = wanted_fields(wanted, [name for name, _, _ in found])
    texts = {index: f.coalesce(as_text(found[index][1], found[index][2]), f.lit("null")) for index in given}
    conditions = (texts[index] == text for index, text in given.items())
    return reduce(lambda one, other: one & other, conditions, f.lit(True))


def named(rows: DataFrame, keys: Keys) -> Column:
    """Whether a row with the column `key`, a struct, belongs to the keys; never NULL.

    Raises ConfigError for a key without fields, a field that the key lacks, and a condition that is none.
    """
    kind = rows.schema[KEY].dataType
    assert isinstance(kind, StructType)
    found = leaves(f.col(KEY), kind)
    if not found:
        raise ConfigError(
            "the operator has no key: it keeps one state for all rows",
            expected="an operator that keeps its state by key",
            where="--operator",
            next_step="begin anew with a new checkpoint path to be rid of that state",
        )
    if keys.where is None:
        return has_texts(found, keys.fields)
    _require_condition(rows.select(KEY), keys.where, [f"{KEY}.{name}" for name, _, _ in found])
    return f.coalesce(f.expr(keys.where), f.lit(False))


def _require_condition(alone: DataFrame, where: str, fields: Sequence[str]) -> None:
    """Raises ConfigError unless the text is a condition over the columns of `alone`, always with the same answer."""
    try:
        kind = alone.select(f.expr(where).alias("holds")).schema["holds"].dataType
        problem = None if isinstance(kind, BooleanType) else f"it is a {kind.simpleString()}, neither true nor false"
        if problem is None and not is_deterministic(alone.where(f.expr(where))):
            problem = "it has another answer at each reading"
    except PySparkException as error:
        problem = said(error)
    if problem is not None:
        raise ConfigError(
            f"{where!r} is no condition on the key: {problem}",
            expected=f"a condition of Spark's SQL over {', '.join(fields)}",
            where="--where",
            next_step="correct it; `streamwarden state show` shows the fields with their values",
        )
