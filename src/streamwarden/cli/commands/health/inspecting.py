"""`inspect`: shows the content of a checkpoint, without Spark."""

from __future__ import annotations

import io
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streamwarden.checkpoint.diagnosis.damage import Damage
from streamwarden.cli.exit_codes import Exit
from streamwarden.cli.formatting import NONE, ago, size
from streamwarden.cli.output import as_json, say, table, text
from streamwarden.cli.session import AsJson, session
from streamwarden.errors import CheckpointMissing, ConfigError, StoreError
from streamwarden.lifecycle.queries import SEPARATOR, is_name, owner
from streamwarden.services.overview import anatomy
from streamwarden.units import format_count

if TYPE_CHECKING:
    from streamwarden.checkpoint.diagnosis.report import CheckpointReport, OperatorReport

_COLOURS = {"harmless": "dim", "recovers": "yellow"}
_GRAVE = "bold red"


def inspect(
    context: typer.Context,
    target: Annotated[
        str,
        typer.Argument(metavar="DIR|STREAM", help="A checkpoint (path or URL), the name of a stream, or STREAM/QUERY."),
    ],
    output: Annotated[
        str | None,
        typer.Option(help="Folder of the parquet sink: its manifest is checked too.", show_default="STREAM's"),
    ] = None,
    connection: Annotated[
        str | None,
        typer.Option(
            help="Connection to the object store of s3a:// paths.", show_default="STREAM's, or AWS_… variables"
        ),
    ] = None,
    json: AsJson = False,
) -> int:
    """Show a checkpoint: batches, offsets, watermark, state, damage and what Spark will do about it. Needs no Spark.

    Exit code 1 if Spark would refuse to start on it, or would lose or double rows.
    """
    from streamwarden.adapters.storage.files import open_path
    from streamwarden.checkpoint.diagnosis.report import read_checkpoint

    checkpoint, sink, named = _locate(context, target, output)
    key = connection or named
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names in a damaged checkpoint may hold any bytes
    try:
        report = read_checkpoint(open_path(checkpoint, key), output=None if sink is None else open_path(sink, key))
    except CheckpointMissing as error:
        if checkpoint == target:
            raise
        raise _not_yet(target, error) from error
    if json:
        as_json(report.to_dict())
    else:
        _show(report)
    return Exit.BAD if report.worst is not None and report.worst.grave else Exit.OK


def _not_yet(stream: str, error: CheckpointMissing) -> CheckpointMissing:
    """The error for the checkpoint of a stream, whose path is known to be right: its file names it."""
    return CheckpointMissing(
        f"{stream} has no checkpoint yet: none of its queries has started",
        expected=error.expected,
        where=error.where,
        next_step=f"run `streamwarden start {owner(stream)}`",
    )


def _locate(context: typer.Context, target: str, output: str | None) -> tuple[str, str | None, str | None]:
    """Checkpoint, output and connection of a stream's name. A folder, or text that cannot be a name, is a path."""
    if not is_name(target) or Path(target).is_dir() or not _is_known(context, target):
        return target, output, None
    spec = session(context).workspace.query(target)
    sink = spec.sink.path if spec.sink.MANIFEST else None
    return spec.checkpoint, output or sink, spec.storage.connection


def _is_known(context: typer.Context, target: str) -> bool:
    """Whether it names a stream; `a/b` may also be a path, for which no project is needed."""
    if SEPARATOR not in target:
        return True
    with suppress(ConfigError, StoreError):
        session(context).workspace.require_known(owner(target))
        return True
    return False


def _show(report: CheckpointReport) -> None:
    now = time.time()
    for name, value in anatomy.facts(report, now):
        say(f"[bold]{name:<12}[/] {text(value)}")
    table(
        ("batch", "planned", "committed", "watermark", "reads up to"),
        [
            (
                str(batch.batch),
                ago(batch.planned_at, now),
                ago(batch.committed_at, now),
                anatomy.moment_words(batch.watermark_ms),
                text("\n".join(batch.sources)) or NONE,
            )
            for batch in report.batches
        ],
        title="The last batches",
        empty="No batch was planned yet.",
    )
    _show_state(report)
    _show_findings(report)


def _show_state(report: CheckpointReport) -> None:
    for operator in report.operators:
        name, partitions = anatomy.operator_words(operator), format_count(operator.partitions, "partition")
        rows = [
            (str(store.partition), text(store.store), size(store.bytes), anatomy.versions_words(store.snapshots),
             anatomy.versions_words(store.changelogs), anatomy.replay_words(store))
            for store in report.stores
            if store.operator == operator.operator
        ]  # fmt: skip
        table(
            ("partition", "store", "bytes", "snapshots", "changelogs", "a restart replays"),
            rows,
            title=f"Operator {operator.operator}: {name}, {partitions}, {size(operator.bytes)}",
        )
        _show_schemas(operator)
    if len(report.operators) > 1:
        say("Spark numbers the operators of a query from the sink towards the sources.")
    if not report.operators:
        say("The query keeps no state, or has not written any yet.")


def _show_schemas(operator: OperatorReport) -> None:
    rows = [
        (text(schema.store), text(family.name), text(family.kind) if family.kind else NONE, text(", ".join(family.key)),
         text(", ".join(family.value)))
        for schema in operator.schemas
        for family in schema.families
    ]  # fmt: skip
    if rows:
        table(("store", "column family", "kind", "key", "value"), rows, title=f"State of operator {operator.operator}")


def _show_findings(report: CheckpointReport) -> None:
    if not report.findings:
        say("[green]Nothing is missing or damaged.[/]")
        return
    table(
        ("file", "what is wrong", "what Spark does", "next"),
        [
            (text(finding.path), text(finding.what), _reaction(finding), text(finding.next_step))
            for finding in report.findings
        ],
        title="Missing or damaged",
    )


def _reaction(finding: Damage) -> str:
    """The consequence, and Spark's reaction with its error class unless the sentence names it."""
    consequence = finding.consequence.value
    is_named = not finding.error_class or finding.error_class in finding.spark
    suffix = "" if is_named else f" ({finding.error_class})"
    return f"[{_COLOURS.get(consequence, _GRAVE)}]{consequence}[/]: {text(finding.spark)}{suffix}"
