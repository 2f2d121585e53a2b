"""The reference page of the store's tables, from their definitions."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from streamwarden.adapters.store.sanitize import JsonText
from streamwarden.adapters.store.tables import metadata

_HEAD: Final = """# The store's tables

Times are Unix seconds, sizes are bytes, columns named `*_ms` are milliseconds. The store is SQLite in WAL mode, or the
PostgreSQL database that `STREAMWARDEN_STORE_URL` names. Read it with any SQL tool. Write to it only through
Streamwarden.
"""


def page() -> str:
    """The page, Markdown."""
    return "\n".join([_HEAD, *(_section(table) for table in sorted(metadata.tables.values(), key=lambda t: t.name))])


def _section(table: sa.Table) -> str:
    lines = [f"## {table.name}", "", f"{table.comment}.", "", "| column | type | |", "|---|---|---|"]
    lines += [f"| `{column.name}` | {_type(column)} | {_remark(column)} |" for column in table.columns]
    unique = [index for index in table.indexes if index.unique]
    for index in sorted(unique, key=lambda index: str(index.name)):
        columns = ", ".join(f"`{column.name}`" for column in index.columns)
        condition = index.dialect_options["sqlite"]["where"]
        lines += ["", f"Unique: {columns} where {str(condition).split('.')[-1]}."]
    return "\n".join([*lines, ""])


def _type(column: sa.Column[object]) -> str:
    if isinstance(column.type, JsonText):
        return "JSON as text"
    return {"BIGINT": "integer", "INTEGER": "integer", "DOUBLE": "number", "BOOLEAN": "boolean"}.get(
        str(column.type), "text"
    )


def _remark(column: sa.Column[object]) -> str:
    remarks = ["key" if column.primary_key else "", "may be empty" if column.nullable else "", column.comment or ""]
    return ": ".join(remark for remark in remarks if remark)
