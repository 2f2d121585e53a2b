"""The kind of sink `files`: a folder of JSON, CSV, ORC or text files under Spark's own manifest.

JSON, CSV and text have fewer types than rows have. A value is read as the type of the oracle's value of that column. A
value that cannot be read so stays as it is, and then is a wrong one. Spark writes with options under which no value
loses digits, blanks or the difference between a null and an empty text; other options of the format are refused.
"""

import bz2
import gzip
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from functools import partial
from typing import BinaryIO, ClassVar, Final

from streamwarden.problems import Problem, show
from streamwarden.sinks.files.data import DataFile, DataFormat, of_table, of_values
from streamwarden.sinks.files.sink import FileSink
from streamwarden.sinks.json_values import JSON, parse_object, typed, types_of
from streamwarden.units import format_list
from streamwarden.verification.comparing.column_types import DECIMAL, FRACTIONS, INTEGERS, scalar


class FileFormat(StrEnum):
    JSON = "json"
    CSV = "csv"
    ORC = "orc"
    TEXT = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesSink(FileSink):
    """A folder of files in a format of Spark's; exactly once for readers that honour its `_spark_metadata` manifest.

    `mode` is `append`. `options` may have `compression`, and `sep` for CSV.
    """

    FORMATS: ClassVar[tuple[str, ...]] = tuple(FileFormat)

    kind: str = "files"
    format: FileFormat = field()
    """Spark's name of the files' format (see [files as the sink](../how-to/file-sink.md))"""

    @property
    def spark_format(self) -> str:
        return str(self.format)

    @property
    def title(self) -> str:
        return f"{self.format} files"

    def problems(self) -> Iterator[Problem]:
        yield from FileSink.problems(self)  # without super(): slots=True makes another class of this one
        known_format = _FORMATS[self.format]
        for name, value in self.options.items():
            if name.lower() not in known_format.options:
                allowed = f"{format_list(sorted(known_format.options))}: the sink sets what values are written with"
            elif not known_format.options[name.lower()](value):
                allowed = known_format.allowed[name.lower()]
            else:
                continue
            yield Problem(key=("sink", "options", name), observed=show(value), allowed=allowed)

    def writer_options(self) -> dict[str, str]:
        return {**_FORMATS[self.format].written, **self.options}

    def data_format(self, like: Mapping[str, object]) -> DataFormat:
        known_format = _FORMATS[self.format]
        options = {name.lower(): value for name, value in self.options.items()}
        return DataFormat(self.format, known_format.suffix, partial(known_format.read, like=like, options=options))


def _content(opened: BinaryIO, name: str) -> bytes:
    """The file without its compression. Raises OSError, ValueError."""
    expand = next((decompress for suffix, decompress in _EXPAND.items() if name.endswith(suffix)), None)
    try:
        return opened.read() if expand is None else expand(opened.read())
    except (EOFError, zlib.error) as error:
        raise ValueError(f"its compression is damaged: {error}") from error


_EXPAND: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    ".gz": gzip.decompress,
    ".bz2": bz2.decompress,
    ".deflate": zlib.decompress,
}


def _read_json(opened: BinaryIO, name: str, *, like: Mapping[str, object], options: Mapping[str, str]) -> DataFile:
    rows = [parse_object(line) for line in _content(opened, name).split(b"\n") if line]
    types = types_of(rows)
    values = {column: [typed(row.get(column), like.get(column)) for row in rows] for column in types}
    return of_values(types, values, len(rows))


def _read_csv(opened: BinaryIO, name: str, *, like: Mapping[str, object], options: Mapping[str, str]) -> DataFile:
    import io

    from pyarrow import csv, string

    content = _content(opened, name)
    parse = csv.ParseOptions(
        delimiter=options.get("sep", ","), newlines_in_values=True, double_quote=True, ignore_empty_lines=False
    )
    header = csv.open_csv(io.BytesIO(content), parse_options=parse).schema.names
    table = csv.read_csv(
        io.BytesIO(content),
        parse_options=parse,
        convert_options=csv.ConvertOptions(
            column_types=dict.fromkeys(header, string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    values = {column: [_parsed(text, like.get(column)) for text in table[column].to_pylist()] for column in header}
    return of_values(dict.fromkeys(header, (_CSV_TEXT,)), values, table.num_rows)


_CSV_TEXT: Final = scalar(
    "a CSV text", "string", "boolean", "timestamp", "timestamp_ntz", "date", DECIMAL, *INTEGERS, *FRACTIONS
)


def _parsed(text: str | None, like: object) -> object:
    """A CSV text as the type of `like`; as it is if it cannot be read so."""
    parse = _PARSE.get(type(like))
    if text is None or parse is None:
        return text
    try:
        return parse(text)
    except (ValueError, KeyError, ArithmeticError):
        return text


def _whole(text: str) -> int:
    if str(int(text)) != text:
        raise ValueError(f"{text!r} is not how Spark writes a whole number")
    return int(text)


_PARSE: Final[Mapping[type, Callable[[str], object]]] = {
    bool: {"true": True, "false": False}.__getitem__,
    int: _whole,
    float: float,
    Decimal: Decimal,
    datetime: datetime.fromisoformat,
    date: date.fromisoformat,
}


def _read_orc(opened: BinaryIO, name: str, *, like: Mapping[str, object], options: Mapping[str, str]) -> DataFile:
    """Spark stores a wall clock as a number of microseconds, and names its own type in an attribute of the column."""
    import pyarrow as pa
    from pyarrow import orc

    table = orc.ORCFile(pa.BufferReader(opened.read())).read()
    wall = [item.name for item in table.schema if (item.metadata or {}).get(_SPARK_TYPE) == b"timestamp_ntz"]
    for column in wall:
        at = table.schema.get_field_index(column)
        table = table.set_column(at, column, table.column(at).cast(pa.timestamp("us")))
    content = of_table(table)
    table = content.table
    for column in wall:
        if _is_clock(like.get(column)):
            at = table.schema.get_field_index(column)
            table = table.set_column(at, column, table.column(at).cast(pa.timestamp("us")))
    return replace(content, table=table)


_SPARK_TYPE: Final = b"spark.sql.catalyst.type"


def _is_clock(like: object) -> bool:
    """Whether the oracle's value is a time without a zone."""
    return isinstance(like, datetime) and like.tzinfo is None


def _read_text(opened: BinaryIO, name: str, *, like: Mapping[str, object], options: Mapping[str, str]) -> DataFile:
    """Spark's reader gives the one column the name `value` too, whatever it was called when it was written."""
    lines = _content(opened, name).decode("utf-8").split("\n")
    lines = lines[:-1] if lines[-1] == "" else lines
    return of_values({"value": (scalar("string"),)}, {"value": lines}, len(lines))


@dataclass(frozen=True, slots=True)
class _Format:
    """How Streamwarden reads a format.

    Args:
        suffix: of the names of its files.
        read: reads one file; see `DataFormat.read`.
        compressions: names of Spark's codecs whose files can be read back here.
        written: options that Spark always writes with.
        separated: whether `sep` may be set.
    """

    suffix: str
    read: Callable[..., DataFile]
    compressions: tuple[str, ...] = ("none", "uncompressed", "gzip", "bzip2", "deflate")
    written: Mapping[str, str] = field(default_factory=dict)
    separated: bool = False

    @property
    def options(self) -> dict[str, Callable[[str], bool]]:
        """The options that may be declared, each with whether a value is allowed."""
        allowed: dict[str, Callable[[str], bool]] = {"compression": lambda value: value.lower() in self.compressions}
        return {**allowed, "sep": lambda value: len(value) == 1 and value not in '"\r\n'} if self.separated else allowed

    @property
    def allowed(self) -> dict[str, str]:
        return {"compression": f"one of {', '.join(self.compressions)}", "sep": "one character, not a quote"}


_CLOCKS: Final = {name: JSON[name] for name in ("timestampFormat", "timestampNTZFormat", "timeZone")}
_FORMATS: Final[Mapping[FileFormat, _Format]] = {
    FileFormat.JSON: _Format("json", _read_json, written=JSON),
    FileFormat.CSV: _Format(
        "csv",
        _read_csv,
        written={
            **_CLOCKS,
            "header": "true",  # without it a file does not say which column is which
            "escape": '"',
            "ignoreLeadingWhiteSpace": "false",
            "ignoreTrailingWhiteSpace": "false",
        },
        separated=True,
    ),
    FileFormat.ORC: _Format("orc", _read_orc, compressions=("none", "uncompressed", "zlib", "snappy", "lz4", "zstd")),
    FileFormat.TEXT: _Format("txt", _read_text),
}
