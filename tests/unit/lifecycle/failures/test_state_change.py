"""A refused change of a state's schema is told by field, from texts as Spark 4.3 prints them."""

from __future__ import annotations

import pytest

from streamwarden.lifecycle.failures.exits import failure
from streamwarden.lifecycle.failures.state_change import state_change

AVRO = (
    "[STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION] Schema evolution is not possible new value_schema=StructType("
    "StructField(n,IntegerType,true),StructField(shop,IntegerType,true)) and old value_schema=StructType("
    "StructField(n,IntegerType,true),StructField(shop,StringType,true))\nPlease check https://avro.apache.org/docs/"
    "1.11.1/specification/_print/#schema-resolution for valid schema evolution. SQLSTATE: XXKST"
)
UNSAFE = (
    "[STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE] Provided value schema does not match existing state value schema.\n"
    "Please check number and type of fields.\nExisting value_schema={before} and new value_schema={after}.\nIf you "
    "want to force running the query without schema validation, please set spark.sql.streaming.stateStore."
    "stateSchemaCheck to false."
)


def struct(**fields: str) -> str:
    return f"StructType({','.join(f'StructField({name},{kind},true)' for name, kind in fields.items())})"


def told(before: str, after: str) -> str | None:
    return state_change(UNSAFE.format(before=before, after=after))


def test_a_changed_type_names_the_field_and_both_types() -> None:
    assert state_change(AVRO) == "the state's field shop is STRING in the checkpoint and INT in the job"


def test_changes_that_avro_allows_are_not_listed_with_refused_ones() -> None:
    before = struct(entries="IntegerType", points="IntegerType", gone="StringType")
    after = struct(entries="LongType", points="StringType", new="LongType")
    text = AVRO.partition("new value_schema")[0] + f"new value_schema={after} and old value_schema={before}"
    assert state_change(text) == "the state's field points is INT in the checkpoint and STRING in the job"


def test_field_that_returns_with_another_type_is_reported_with_its_old_type() -> None:
    before, after = struct(n="LongType", old="StringType"), struct(n="LongType", old="IntegerType")
    text = AVRO.partition("new value_schema")[0] + f"new value_schema={after} and old value_schema={before}"
    assert state_change(text) == "the state's field old is STRING in the checkpoint and INT in the job"


def test_fields_that_came_and_went_are_named() -> None:
    before, after = struct(n="LongType", old="StringType"), struct(n="LongType", new="DoubleType")
    assert (
        told(before, after)
        == "the state's field old STRING is not in the job; field new DOUBLE is not in the checkpoint"
    )


def test_a_field_within_a_field_is_named_by_its_path() -> None:
    """State that expires is printed so: value and expiry."""
    before = struct(value=struct(n="LongType"), ttlExpirationMs="LongType")
    after = struct(value=struct(n="IntegerType"), ttlExpirationMs="LongType")
    assert told(before, after) == "the state's field value.n is BIGINT in the checkpoint and INT in the job"


def test_types_with_arguments_are_kept_whole() -> None:
    before, after = struct(a="DecimalType(10,2)"), struct(a="ArrayType(StringType,true)")
    assert told(before, after) == (
        "the state's field a is DECIMAL(10,2) in the checkpoint and ARRAY(STRING,TRUE) in the job"
    )


def test_changed_field_order_is_reported() -> None:
    before, after = struct(a="LongType", b="StringType"), struct(b="StringType", a="LongType")
    assert told(before, after) == "the state's order is a, b in the checkpoint and b, a in the job"


def test_a_changed_key_is_called_so() -> None:
    text = UNSAFE.replace("value_schema", "key_schema")
    text = text.format(before=struct(key="IntegerType"), after=struct(note="StringType"))
    assert str(state_change(text)).startswith("the key's field key INT is not in the job; ")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ValueError: no schema here",
        "Existing value_schema=StructType(StructField(a,LongType,true)",
        UNSAFE.format(before="?", after="?"),
        UNSAFE.format(before=struct(a="LongType"), after=struct(a="LongType")),
    ],
)
def test_text_without_a_state_change_is_ignored(text: str) -> None:
    assert state_change(text) is None


def test_the_exit_begins_with_the_field_and_says_the_way_out() -> None:
    record = failure("STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION", AVRO, at=1.0, cut_batch=True, built=True)
    assert record.curable is False
    assert record.message.startswith("the state's field shop is STRING in the checkpoint and INT in the job: ")
    assert "new name" in record.next_step
    assert "new checkpoint path" in record.next_step
