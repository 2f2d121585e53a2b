"""`savepoint create`, `list`, `show`, `verify`, `delete`: complete copies of a checkpoint at a committed batch."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from streamwarden.cli.exit_codes import Exit
from streamwarden.cli.formatting import NONE, ago, clock, number, size
from streamwarden.cli.output import as_json, progress_bar, say, table, text
from streamwarden.cli.session import AsJson, who, workspace
from streamwarden.lifecycle.queries import owner
from streamwarden.units import format_count, format_size

if TYPE_CHECKING:
    from streamwarden.lifecycle.savepoints.savepoint import SavedText, Savepoint, SinkPosition
    from streamwarden.services.savepoints.creating import Gathered
    from streamwarden.services.savepoints.saved import Savepoints

app = typer.Typer(no_args_is_help=True, help="Savepoints: complete copies of a checkpoint at a committed batch.")

_COLOURS = {"complete": "green", "in progress": "cyan", "incomplete": "yellow", "unreadable": "bold red"}

Named = Annotated[str, typer.Argument(metavar="STREAM", help="Name of a stream, or STREAM/QUERY.")]
MaybeId = Annotated[
    str | None, typer.Argument(metavar="SAVEPOINT", help="A savepoint that `list` shows; without it, the newest one.")
]


@app.command("create")
def create_savepoint(
    context: typer.Context,
    stream: Named,
    batch: Annotated[
        int | None,
        typer.Option(min=0, help="Copy the checkpoint as of this batch.", show_default="the newest committed one"),
    ] = None,
    reason: Annotated[str, typer.Option(help="Why; the manifest and `list` say so.", show_default="none")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be copied, and copy nothing.")] = False,
    json: AsJson = False,
) -> int:
    """Take a savepoint of a stream, running or stopped: a complete, consistent copy of its checkpoint at a committed
    batch. The stream runs on meanwhile.

    Files are linked where the savepoint is on the disk of the checkpoint, so that no byte of state is copied. The copy
    is inspected as `inspect` does, and refused if Spark would not continue from it. Each file gets a digest. What an
    interrupted `create` left is removed.
    """
    from streamwarden.services.savepoints.creating import create, gather
    from streamwarden.services.savepoints.describing import Author, recorded_spark
    from streamwarden.services.savepoints.documents import document
    from streamwarden.services.savepoints.saved import Savepoints

    space = workspace(context)
    spec = space.query(stream)
    if dry_run:
        _show_plan(gather(spec, batch), Savepoints.of(spec).root, json)
        return Exit.OK
    spark = recorded_spark(space.store, owner(spec.name)) if space.has_store() else None
    author = Author(by=who(), reason=reason, spark=spark)
    with progress_bar() as tell:
        savepoint = create(spec, batch, author, tell=tell)
    if json:
        as_json(document(savepoint))
    else:
        say(
            f"[green]{text(savepoint.id)}[/]: {text(stream)} as of batch {savepoint.batch}, "
            f"{format_count(len(savepoint.files), 'file')}, {format_size(savepoint.bytes)}"
        )
    return Exit.OK


@app.command("list")
def list_savepoints(context: typer.Context, stream: Named, json: AsJson = False) -> int:
    """List the savepoints of a stream, newest first. An incomplete one is what an interrupted `create` or `delete`
    left: it is no savepoint."""
    entries = list(_savepoints(context, stream).entries())
    if json:
        as_json(
            [
                {"id": entry.id, "condition": entry.condition, "problem": entry.problem and str(entry.problem)}
                | (_in_short(entry.savepoint) if entry.savepoint is not None else {})
                for entry in entries
            ]
        )
        return Exit.OK
    now = time.time()
    table(
        ("savepoint", "condition", "batch", "taken", "files", "size", "by", "why"),
        [
            (text(entry.id), f"[{_COLOURS[entry.condition]}]{entry.condition}[/]", *_cells(entry.savepoint, now))
            for entry in entries
        ],
        empty=f"{text(stream)} has no savepoint. Take one with `streamwarden savepoint create {text(stream)}`.",
    )
    return Exit.OK


@app.command("show")
def show_savepoint(context: typer.Context, stream: Named, savepoint: MaybeId = None, json: AsJson = False) -> int:
    """Show what a savepoint contains, as its manifest says."""
    from streamwarden.services.savepoints.documents import document

    savepoints = _savepoints(context, stream)
    saved = savepoints.get(savepoint)
    if json:
        as_json(document(saved))
    else:
        _show(saved, savepoints)
    return Exit.OK


@app.command("verify")
def verify_savepoint(context: typer.Context, stream: Named, savepoint: MaybeId = None, json: AsJson = False) -> int:
    """Compare every file of a savepoint with its manifest: missing, extra, of another size, with other bytes.

    Reads all of it. Exit code 1 if a file is not as it was saved.
    """
    from streamwarden.services.savepoints.verifying import verify

    savepoints = _savepoints(context, stream)
    saved = savepoints.get(savepoint)
    with progress_bar() as tell:
        faults = verify(savepoints, saved, tell)
    if json:
        as_json({"id": saved.id, "files": len(saved.files), "bytes": saved.bytes, "faults": faults})
    elif faults:
        say(f"[bold red]{text(saved.id)}[/]: {format_count(len(faults), 'file')} differ from what was saved")
        for fault in faults:
            say(f"  {fault.fault}: {text(fault.path)}: {text(fault.observed)}; expected {text(fault.expected)}")
    else:
        held = f"{format_count(len(saved.files), 'file')}, {format_size(saved.bytes)}"
        say(f"[green]{text(saved.id)}[/]: all is as it was saved ({held})")
    return Exit.BAD if faults else Exit.OK


@app.command("delete")
def delete_savepoint(
    context: typer.Context,
    stream: Named,
    savepoint: Annotated[str, typer.Argument(metavar="SAVEPOINT", help="A savepoint that `list` shows.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be deleted, and delete nothing.")] = False,
) -> int:
    """Delete a savepoint, or what an interrupted `create` left. The stream and its checkpoint are not touched."""
    from streamwarden.services.savepoints.removing import delete, require_free

    savepoints = _savepoints(context, stream)
    if dry_run:
        files = require_free(savepoints, savepoint)
        held = f"{format_count(len(files), 'file')}, {format_size(sum(files.values()))}"
        say(f"{text(savepoint)} would be deleted: {held} in {text(savepoints.place(savepoint).path)}")
        return Exit.OK
    delete(savepoints, savepoint)
    say(f"{text(savepoint)} is deleted")
    return Exit.OK


def _savepoints(context: typer.Context, stream: str) -> Savepoints:
    from streamwarden.services.savepoints.saved import Savepoints

    return Savepoints.of(workspace(context).query(stream))


def _in_short(savepoint: Savepoint) -> dict[str, object]:
    return {
        "batch": savepoint.batch,
        "taken_at": savepoint.taken_at.isoformat(),
        "files": len(savepoint.files),
        "bytes": savepoint.bytes,
        "by": savepoint.by,
        "reason": savepoint.reason,
    }


def _cells(savepoint: Savepoint | None, now: float) -> tuple[str, ...]:
    if savepoint is None:
        return (NONE,) * 6
    return (
        str(savepoint.batch),
        ago(savepoint.taken_at.timestamp(), now),
        number(len(savepoint.files)),
        size(savepoint.bytes),
        text(savepoint.by),
        text(savepoint.reason) or NONE,
    )


def _show_plan(plan: Gathered, root: str, json: bool) -> None:
    if json:
        as_json({"batch": plan.batch, "into": root, "files": plan.files})
        return
    count = format_count(len(plan.files), "file")
    say(f"batch {plan.batch}: {count} would be linked or copied into a new folder of {text(root)}")
    for file in plan.files:
        say(f"  {text(file)}")


def _show(saved: Savepoint, savepoints: Savepoints) -> None:
    facts = {
        "savepoint": saved.id,
        "folder": savepoints.place(saved.id).path,
        "stream": saved.stream,
        "query id": saved.query_id,
        "batch": str(saved.batch),
        "taken": f"{clock(saved.taken_at.timestamp())} by {saved.by}{f': {saved.reason}' if saved.reason else ''}",
        "checkpoint": saved.checkpoint,
        "files": f"{len(saved.files):,}, {format_size(saved.bytes)}",
        "state": _state_words(saved),
        "Spark": saved.spark or "not recorded",
        "formats": ", ".join(f"{name} {version}" for name, version in saved.formats.items()),
        "output": _output_words(saved.sink),
        "job": _file_words(saved.job),
        "declared in": _file_words(saved.declaration),
    }
    for name, value in facts.items():
        say(f"[bold]{name:<12}[/] {text(value)}")
    rows = [
        (str(operator.operator), text(operator.name) if operator.name else NONE, str(operator.partitions),
         text(schema.store), text(family.name), text(", ".join(family.key)), text(", ".join(family.value)))
        for operator in saved.operators
        for schema in operator.schemas
        for family in schema.families
    ]  # fmt: skip
    if rows:
        table(("operator", "name", "partitions", "store", "column family", "key", "value"), rows)


def _state_words(saved: Savepoint) -> str:
    if not saved.operators:
        return "none"
    operators = format_count(len(saved.operators), "operator")
    return f"{operators}, {format_count(saved.partitions or 0, 'partition')}, {saved.provider or 'unknown provider'}"


def _output_words(sink: SinkPosition) -> str:
    if sink.unread:
        return f"{sink.kind}, not read: {sink.unread}"
    newest = "no batch is recorded" if sink.newest is None else f"newest batch {sink.newest}"
    return f"{sink.place or sink.kind}: {newest}"


def _file_words(saved: SavedText | None) -> str:
    return "not read" if saved is None else f"{saved.path}, SHA-256 {saved.sha256[:12]}…"
