"""`device_heartbeats` in Bytewax: a stateful operator. The clock of a device are its own readings: Bytewax has no
watermark of the stream. Its topics and its broker are in the environment."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterable
from typing import Any

import bytewax.operators as op
from beats import LATE, Device, at_of
from bytewax.connectors.kafka import KafkaSink, KafkaSinkMessage, KafkaSource
from bytewax.dataflow import Dataflow
from bytewax.operators import StatefulLogic


class Heartbeats(StatefulLogic[Any, Any, Device]):
    """The sessions of one device."""

    def __init__(self, before: Device | None) -> None:
        self._device = before

    def on_item(self, value: Any) -> tuple[Iterable[Any], bool]:
        """One reading."""
        device = self._device = self._device or Device(value["device_id"])
        at = at_of(value)
        device.add(at, value["session_id"], value["state"])
        return list(device.catch_up(at - LATE)), StatefulLogic.RETAIN

    def snapshot(self) -> Device | None:
        """What recovery needs."""
        return copy.deepcopy(self._device)


servers, source, sink = os.environ["SERVERS"], os.environ["SOURCE"], os.environ["SINK"]
flow = Dataflow("device_heartbeats")
records = op.input("readings", flow, KafkaSource([servers], [source]))
keyed = op.map("parse", records, lambda record: (record.key.decode(), json.loads(record.value)))
beats = op.stateful("beats", keyed, Heartbeats)
rows = op.map("row", beats, lambda item: KafkaSinkMessage(None, item[1].encode()))
op.output("out", rows, KafkaSink([servers], sink))
