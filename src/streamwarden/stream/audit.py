"""When a stream is audited, and what a job with state of its own declares about it: the block `audit` of its file."""

from dataclasses import dataclass, field

__all__ = ["AuditSpec", "Counted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """An amount that a job with `transformWithState` neither loses nor invents: each of its expressions is SQL."""

    output: str | None = None
    """how much of it a row of the output writes; null: the column of the amount's name"""
    variable: str | None = None
    """the state variable that holds what is not written yet; null: the batch that reads a row writes its amount"""
    state: str = "1"
    """how much of it one entry of the variable holds: an expression over the fields of its value"""
    input: str = "1"
    """how much of it an input row adds: an expression over the columns that the operator takes"""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSpec:
    """When Airflow [audits](../how-to/audit.md) the stream, and how far back."""

    schedule: str | None = None
    """when Airflow audits the stream: a cron expression or a preset such as `@daily`; null: only when asked"""
    batches: int | None = None
    """audit at most so many of the newest batches; null: all whose input and state are kept"""
    share: float = 0.04
    """the part of the time in which the reading runs, above 0 and at most 1; it is paused for the rest, so that it
    does not slow the stream's batches (see [audits](../how-to/audit.md#what-an-audit-costs))"""
    counted: dict[str, Counted] = field(default_factory=dict)
    """of a job with `transformWithState`: name of an amount -> `variable`, `state`, `input` and `output`, by which an
    audit finds it (see [audits](../how-to/audit.md#jobs-with-transformwithstate))"""
