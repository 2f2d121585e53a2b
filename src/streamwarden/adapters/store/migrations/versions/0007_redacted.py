"""Remove the secrets that earlier versions stored: in journals, in the ends of drivers, in what people read."""

import json
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from alembic import op

from streamwarden.redaction import redacted, redacted_text

revision = "0007"
down_revision = "0006"

_JSON = {
    "drivers": ("exit",),
    "driver_events": ("detail",),
    "verdicts": ("evidence",),
    "verdict_changes": ("evidence",),
    "drills": ("facts",),
    "journal_entries": ("data",),
}
_TEXT = {
    "queries": ("error",),
    "stop_requests": ("reason",),
    "desired_states": ("reason",),
    "verdicts": ("reason", "advice"),
    "verdict_changes": ("reason", "advice"),
    "incidents": ("reason", "advice"),
    "drills": ("reason",),
    "journal_entries": ("message",),
}


def upgrade() -> None:
    """Rewrite each text that holds a secret. SQLite overwrites the old text too."""
    connection = op.get_bind()
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("PRAGMA secure_delete = ON")
    for columns, rewrite in ((_JSON, _json), (_TEXT, redacted_text)):
        for table, names in columns.items():
            for name in names:
                _rewrite(connection, table, name, rewrite)


def _rewrite(connection: sa.Connection, table: str, name: str, rewrite: Callable[[str], str]) -> None:
    column: sa.ColumnClause[Any] = sa.column(name)
    rows = sa.table(table, column)
    for text in connection.execute(sa.select(column).where(column.is_not(None)).distinct()).scalars().all():
        if (shown := rewrite(text)) != text:
            connection.execute(rows.update().where(column == text).values({name: shown}))


def _json(text: str) -> str:
    value = json.loads(text)
    shown = redacted(value)
    return text if shown == value else json.dumps(shown, ensure_ascii=False, separators=(",", ":"))
