"""`user_sessions` in Bytewax: a stateful operator with a notification for each user. Its topics and its broker are in
the environment."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSink, KafkaSinkMessage, KafkaSource
from bytewax.dataflow import Dataflow
from bytewax.operators import StatefulLogic

TIMEOUT = {"web": timedelta(minutes=30), "kiosk": timedelta(minutes=10)}
DEFAULT = timedelta(minutes=1)


@dataclass
class Session:
    """An open session."""

    user: str = ""
    began: datetime = datetime.min
    last: datetime = datetime.min
    data: list[str] = field(default_factory=list)

    @property
    def due(self) -> datetime:
        return self.last + TIMEOUT.get(self.user.partition(":")[0], DEFAULT)

    def row(self, ended: datetime, reason: str) -> dict[str, Any]:
        """As it comes out."""
        times = {"started_at": round(self.began.timestamp() * 1000), "ended_at": round(ended.timestamp() * 1000)}
        row = {"id": self.user, "client": self.user.partition(":")[0], "reason": reason, "events": len(self.data)}
        return {**row, **times, "data": self.data}


class Sessions(StatefulLogic[Any, Any, Session]):
    """The open session of one id."""

    def __init__(self, before: Session | None) -> None:
        self._session = before or Session()

    def on_item(self, value: Any) -> tuple[Iterable[Any], bool]:
        """One event."""
        now, session = datetime.now(UTC), self._session
        session.user = value["id"]
        session.began = session.began if session.data else now
        session.last = now
        session.data.append(value["data"])
        return ([session.row(now, "LAST")], True) if value["is_last"] else ([], False)

    def on_notify(self) -> tuple[Iterable[Any], bool]:
        """The end of the session's timeout."""
        return [self._session.row(self._session.due, "TIMEOUT")], True

    def notify_at(self) -> datetime | None:
        """When it ends without another event."""
        return self._session.due if self._session.data else None

    def snapshot(self) -> Session:
        """What recovery needs."""
        return copy.deepcopy(self._session)


servers, source, sink = os.environ["SERVERS"], os.environ["SOURCE"], os.environ["SINK"]
flow = Dataflow("user_sessions")
records = op.input("events", flow, KafkaSource([servers], [source]))
keyed = op.map("parse", records, lambda record: (record.key.decode(), json.loads(record.value)))
sessions = op.stateful("sessions", keyed, Sessions)
rows = op.map("row", sessions, lambda item: KafkaSinkMessage(None, json.dumps(item[1]).encode()))
op.output("out", rows, KafkaSink([servers], sink))
