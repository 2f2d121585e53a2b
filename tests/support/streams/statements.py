"""How many queries a store runs."""

from __future__ import annotations

import sqlalchemy as sa

from streamwarden.adapters.store import Store


class Statements:
    """Counts the SELECTs of a store from now on."""

    def __init__(self, store: Store) -> None:
        self.count = 0
        sa.event.listen(store._database._engine, "before_cursor_execute", self._counted)

    def _counted(self, connection: object, cursor: object, statement: str, *_: object) -> None:
        self.count += statement.startswith(("SELECT", "WITH"))
