"""The sources of a script's query: what its first start declares, what later ones change, what no one checks. Pure.

The first start is the only one that no fault has come before. So what it declares holds for the whole fork: a driver
that reads something else after a restart may read less, and its own logs would not show it.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from streamwarden.lifecycle.script_queries import NamedInput
from streamwarden.redaction import is_secret
from streamwarden.units import format_count, format_list

_LEAVES_OUT: Final = {
    name.lower(): name for name in ("pathGlobFilter", "maxFileAge", "latestFirst", "modifiedBefore", "modifiedAfter")
}
"""Options of a source of files under which it may never read some of them."""

_PACES: Final = frozenset(
    {
        *("maxfilespertrigger", "maxbytespertrigger", "maxoffsetspertrigger"),
        *("minoffsetspertrigger", "maxtriggerdelay", "path"),
    }
)
"""Options that do not decide what is read, but how much of it in a batch; and the path, which is compared by itself."""

_FIRST: Final = "starting"
"""Options that begin with this hold for a new checkpoint alone. A script may compute them from the clock."""

_PATTERN: Final = set("*?[{")


def declared(source: NamedInput, place: str | None) -> NamedInput:
    """The source as a fork keeps it: with its resolved place, and without the values of secrets."""
    options = {name: _kept(name, value) for name, value in source.options.items()}
    return replace(source, path=None if source.path is None else place, options=options, line=None)


def _kept(name: str, value: str) -> str:
    if not name.lower().startswith("kafka.") and not is_secret(name):
        return value
    return f"sha256 {hashlib.sha256(value.encode()).hexdigest()[:12]}"


def left_out_by(source: NamedInput) -> tuple[str, ...]:
    """The options under which the source may never read some files of its folder, as Spark names them."""
    options = {name.lower(): value.lower() for name, value in source.options.items()}
    return tuple(
        name for lower, name in _LEAVES_OUT.items() if lower in options and (lower, options[lower]) != _NEWEST_LAST
    )


_NEWEST_LAST: Final = ("latestfirst", "false")


def is_recursive(options: Mapping[str, str]) -> bool:
    """Whether a source with these options reads every subfolder."""
    lower = {name.lower(): value.lower() for name, value in options.items()}
    return lower.get("recursivefilelookup") == "true"


def is_hidden(name: str) -> bool:
    """Whether Spark leaves out a file or a folder with this name: a temporary one of another program."""
    return name.startswith((".", "_"))


def is_whole(source: NamedInput) -> bool:
    """Whether the source reads each file of one folder, so that its files can be listed and compared."""
    return source.path is not None and not _PATTERN & set(source.path) and not left_out_by(source)


def is_read(name: str, *, recursive: bool) -> bool:
    """Whether Spark reads a file with this path below the folder of a source.

    Spark reads the files of the folder itself. It reads those of subfolders only if they are partitions (`day=2`), or
    the source asks for it.
    """
    *folders, file = name.split("/")
    return not file.endswith("._COPYING_") and (recursive or not folders or any("=" in folder for folder in folders))


def changes(first: Sequence[NamedInput], now: Sequence[NamedInput]) -> tuple[str, ...]:
    """In what a later start declares other sources than the first one."""
    if len(first) != len(now):
        return (f"it reads {format_count(len(now), 'source')}, and the first start read {len(first)}",)
    return tuple(change for one, other in zip(first, now, strict=True) for change in _between(one, other))


def _between(first: NamedInput, now: NamedInput) -> Iterator[str]:
    if (first.format, first.path, first.topic) != (now.format, now.path, now.topic):
        yield f"it reads {_named(now)}, and the first start read {_named(first)}"
        return
    before, after = (_compared(source.options) for source in (first, now))
    spelled = {name.lower(): name for name in (*first.options, *now.options)}
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            is_now, was = (options.get(name, "not set") for options in (after, before))
            yield f"the option {spelled[name]} of {_named(now)} is {is_now}, and was {was}"
    if first.schema != now.schema:
        yield f"the schema of {_named(now)} is {now.schema}, and was {first.schema}"


def _compared(options: Mapping[str, str]) -> dict[str, str]:
    lower = {name.lower(): value for name, value in options.items()}
    return {name: value for name, value in lower.items() if name not in _PACES and not name.startswith(_FIRST)}


def _named(source: NamedInput) -> str:
    place = source.path or (f"the topic {source.topic}" if source.topic else "a source")
    return f"{place} ({source.format})" if source.format else place


def unchecked(source: NamedInput, *, can_list: bool) -> str | None:
    """What of the source's input no one checks, in words; None: each of its files has to be read.

    Args:
        can_list: the files of its folder were listed when the fork began.
    """
    if source.path is None:
        return f"which records of {_named(source)} were read"
    options = left_out_by(source)
    if options:
        why = f"the script sets {format_list(options)}"
    elif not is_whole(source):
        why = "its path is a pattern"
    elif not can_list:
        why = "the folder cannot be listed, or is the output of another query"
    else:
        return None
    return f"which files of {source.path} were read ({why})"
