"""`replay`: publishes real flights as files or records, at a chosen speed."""

import re
from pathlib import Path
from typing import Annotated, Final

import typer

from streamwarden.cli.exit_codes import Exit
from streamwarden.cli.output import as_json, say, text
from streamwarden.cli.session import AsJson, session
from streamwarden.config.places import resolve
from streamwarden.errors import ConfigError

_TOPIC: Final = re.compile(r"kafka:([A-Za-z][A-Za-z0-9_]*)/([A-Za-z0-9._-]{1,249})")


def replay(
    context: typer.Context,
    into: Annotated[
        str | None, typer.Argument(help="Folder to publish into, below the data folder unless absolute.")
    ] = None,
    stream: Annotated[str | None, typer.Option(help="Publish into the input folder or topic of this stream.")] = None,
    to: Annotated[
        str | None,
        typer.Option(help="Send to a topic instead; created if missing.", metavar="kafka:CONNECTION/TOPIC"),
    ] = None,
    speedup: Annotated[
        float | None, typer.Option(help="Seconds of event time in a second.", show_default="as fast as possible")
    ] = None,
    rows_per_file: Annotated[int | None, typer.Option(help="Flights in a file; the first replay fixes it.")] = None,
    limit: Annotated[
        int | None, typer.Option(help="Stop after the file that reaches this many flights.", show_default="all")
    ] = None,
    json: AsJson = False,
) -> int:
    """Publish the flights of 2013 as JSON files or records, in the order in which they departed.

    A stream that reads flights and weather gets both, each in its folder. Each file appears whole. An interrupted
    replay continues where it stopped.
    """
    from streamwarden.services.replay.replay import ROWS_PER_FILE
    from streamwarden.services.replay.replay import replay as publish

    if [into, stream, to].count(None) != 2:
        raise typer.BadParameter("name one: a folder, --stream, or --to", param_hint="INTO")
    topic = _topic(context, stream, to)
    if topic is not None:
        return _send(*topic, speedup, rows_per_file or ROWS_PER_FILE, limit, json)
    folder, parts = _folder(context, into, stream)
    stats = publish(folder, parts=parts, speedup=speedup, rows_per_file=rows_per_file or ROWS_PER_FILE, limit=limit)
    if json:
        as_json(stats)
    else:
        weather = f", {stats.observations:,} observations of the weather" if parts else ""
        say(
            f"{stats.files_written} files written, {stats.files_skipped} existed; {stats.flights:,} flights, "
            f"{stats.cancelled:,} of them cancelled{weather}, into {text(folder)} in {stats.seconds:.1f} s"
        )
    return Exit.OK


def _topic(context: typer.Context, stream: str | None, to: str | None) -> tuple[str, str] | None:
    """Connection and topic; None if the target is a folder."""
    if to is not None:
        match = _TOPIC.fullmatch(to)
        if match is None:
            raise typer.BadParameter(f"{to!r} is not kafka:CONNECTION/TOPIC", param_hint="--to")
        return match[1], match[2]
    if stream is None:
        return None
    source = session(context).workspace.stream(stream).source
    return (source.connection, source.topic) if source.connection and source.topic else None


def _send(name: str, topic: str, speedup: float | None, rows_per_portion: int, limit: int | None, in_json: bool) -> int:
    from streamwarden.adapters.connections import connection
    from streamwarden.services.replay.topic import replay_to_topic

    stats = replay_to_topic(connection(name), topic, speedup=speedup, rows_per_portion=rows_per_portion, limit=limit)
    if in_json:
        as_json(stats)
    else:
        say(
            f"{stats.sent:,} flights sent, {stats.skipped:,} existed; to {stats.partitions} partitions of the topic "
            f"{text(topic)} in {stats.seconds:.1f} s"
        )
    return Exit.OK


def _folder(context: typer.Context, into: str | None, stream: str | None) -> tuple[Path, tuple[str, ...]]:
    if into is not None and Path(into).is_absolute():
        return Path(into), ()
    space = session(context).workspace
    source = None if into is not None else space.stream(str(stream)).source
    path = resolve(str(into), space.root) if source is None else source.path
    if path is None or "://" in path:
        raise ConfigError(
            f"{into or stream} means {path or 'no folder'}, and a replay writes into a folder of this host",
            expected="a folder of this host, or a stream that reads one or a topic",
            where="INTO" if into else "--stream",
            next_step="name an absolute folder, and copy its files from there",
        )
    return Path(path), () if source is None else source.parts
