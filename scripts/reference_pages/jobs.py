"""The catalogue of the project's streams, from their YAML files and the docstrings of their jobs and oracles."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Final

from streamwarden.config.loading import load_catalog
from streamwarden.sources.base import Source
from streamwarden.stream.spec import StreamSpec
from streamwarden.units import format_duration, format_size

_HEAD: Final = """\
# Jobs

Patterns to copy. Each job is one PySpark file, each stream one YAML file, and each oracle answers the job's question
independently, from its definition, without Spark. The tests kill a job in mid-batch and compare its output with the
oracle's.

"""


def page(project: Path) -> str:
    """The whole page, in Markdown. Raises ConfigError if `project` is not a project."""
    streams = load_catalog(project, project / "var").streams
    names = sorted(streams)
    index = [f"- [{name}](#{name}): {_first_paragraph(_docstring(Path(streams[name].job)))}" for name in names]
    return _HEAD + "\n".join(index) + "\n\n" + "\n".join(_section(streams[name], project) for name in names)


def _section(spec: StreamSpec, project: Path) -> str:
    job = Path(spec.job)
    oracle = job.parent / "oracles" / job.name
    files = [("job", job), ("stream", Path(spec.file))] + ([("oracle", oracle)] if oracle.is_file() else [])
    links = ", ".join(f"[{what}](../{file.relative_to(project)})" for what, file in files)
    parts = [f"## {spec.name}", "", f"{spec.description.strip()} ({links})", "", _as_markdown(_docstring(job)), ""]
    if oracle.is_file():
        parts += ["### What the oracle asks", "", _as_markdown(_question(_docstring(oracle))), ""]
    return "\n".join([*parts, "| setting | value |", "|---|---|", *_settings(spec, project), ""])


def _settings(spec: StreamSpec, project: Path) -> list[str]:
    data = project / "var"
    trigger = "the input that is there, then the end" if spec.trigger.available_now else "each batch after the last"
    if spec.trigger.real_time:
        trigger = f"real-time mode, batches of {format_duration(spec.trigger.real_time)}"
    elif spec.trigger.interval:
        trigger = f"each {format_duration(spec.trigger.interval)}"
    backend = f"{spec.state.backend}{', changelog' if spec.state.changelog else ''}"
    rows = {
        "source": _source(spec, data),
        "sink": f"{spec.sink.title} in `{_below(spec.sink.place, data)}`, {spec.sink.mode}",
        "trigger": trigger,
        "state": f"{backend}, {spec.state.shuffle_partitions} partitions",
        "memory": f"{format_size(spec.spark.driver_memory)} for the driver, `{spec.spark.master}`",
    }
    return [f"| {name} | {value} |" for name, value in rows.items()]


def _source(spec: StreamSpec, data: Path) -> str:
    source = spec.source
    return source.describe(lambda path: _below(path, data)) if isinstance(source, Source) else "the job's own"


def _below(path: str | None, data: Path) -> str:
    return str(Path(path).relative_to(data)) if path and Path(path).is_relative_to(data) else str(path)


def _docstring(file: Path) -> str:
    return ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""


def _first_paragraph(text: str) -> str:
    return " ".join(text.partition("\n\n")[0].split())


def _question(text: str) -> str:
    """The paragraphs that say what is asked: the first two tell how the oracle was written."""
    return text[text.find("The question:") :] if "The question:" in text else text


def _as_markdown(text: str) -> str:
    """Indented blocks of a docstring become code blocks: Markdown joins their lines otherwise."""
    lines: list[str] = []
    fenced = False
    for line in text.splitlines():
        indented = re.match(r" {2,}\S", line) is not None
        if indented and not fenced:
            lines += ["", "```text"]
        elif fenced and not indented:
            lines += ["```", ""]
        fenced = indented
        lines.append(line)
    return "\n".join([*lines, "```"] if fenced else lines)
