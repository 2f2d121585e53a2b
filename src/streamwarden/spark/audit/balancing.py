"""Balances the books of a query by the operator that keeps its state."""

from typing import Any

from streamwarden.lint.facts import STATEFUL
from streamwarden.spark.audit import static
from streamwarden.spark.audit.books import Sides, compared
from streamwarden.spark.audit.context import Audited
from streamwarden.spark.audit.input import AuditedInput
from streamwarden.spark.audit.operators import BALANCED
from streamwarden.spark.audit.plan import CannotBalance, Catalyst, children, descended, kind, require_repeatable
from streamwarden.stream.spec import StreamSpec
from streamwarden.verification.comparing.balance import Books


def audited_query(
    catalyst: Catalyst, spec: StreamSpec, request: dict[str, Any], given: AuditedInput, streaming: Any, batch: Any
) -> Audited:
    """The query, built over its streams and over what the audited batches read."""
    return Audited(
        catalyst=catalyst,
        spec=spec,
        request=request,
        streaming=catalyst.plan(streaming),
        batch=catalyst.plan(batch),
        frame=batch,
        given=given,
    )


def balanced(audited: Audited, *, limit: int) -> Books:
    """The books of the query; `limit`: how many entries that do not balance they name. Raises CannotBalance."""
    static.require_unchanged(audited)
    books = compared(_sides(audited), limit=limit)
    unknown = sorted(set(static.unknown_sides(audited)))
    if books.unbalanced and unknown:
        raise CannotBalance(
            f"{books.unbalanced:,} of {books.entries:,} groups do not balance, and the query joins its stream with "
            f"rows of {', '.join(unknown)}: it is unknown whether they changed since"
        )
    return books


def _sides(audited: Audited) -> Sides:
    operators = _stateful(audited.streaming)
    if not operators:
        raise CannotBalance("the query keeps no state")
    if len(operators) > 1:
        names = " over ".join(kind(node) for node in operators)
        raise CannotBalance(f"the query has several operators that keep state ({names}), and an audit follows one")
    operator = kind(operators[0])
    if operator not in BALANCED:
        raise CannotBalance(f"the audit does not know how to balance the operator {operator}")
    _require_repeatable(audited.batch, operator)
    return BALANCED[operator](audited)


def _require_repeatable(plan: Any, operator: str) -> None:
    """Raises CannotBalance if the audit would compute other rows than the query did. An aggregation knows by itself
    which of its own columns differ."""
    for node in children(descended(plan, operator)) if operator == "Aggregate" else [plan]:
        require_repeatable(node)


def _stateful(plan: Any) -> list[Any]:
    here = [plan] if kind(plan) in STATEFUL and _keeps_state(plan) else []
    return [*here, *(node for child in children(plan) for node in _stateful(child))]


def _keeps_state(node: Any) -> bool:
    if kind(node) == "Join":
        return all(child.isStreaming() for child in children(node))
    return bool(node.isStreaming())
