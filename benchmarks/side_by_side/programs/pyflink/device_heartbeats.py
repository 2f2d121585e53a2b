"""`device_heartbeats` in PyFlink: a keyed process function in Python with one timer of event time for each device."""

from __future__ import annotations

import json
from collections.abc import Iterator

from beats import LATE, Device, at_of
from pyflink.common import Duration, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor
from settings import configuration, given
from topics import sink, source


class Times(TimestampAssigner):
    """The time of a reading."""

    def extract_timestamp(self, value: str, record_timestamp: int) -> int:
        """Unix milliseconds."""
        at: int = at_of(json.loads(value))
        return at


class Heartbeats(KeyedProcessFunction):
    """Keeps a device in one value of state: it is read and written as a whole."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Called by Flink, once in each task."""
        self._device = runtime_context.get_state(ValueStateDescriptor("device", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: str, ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        """One reading."""
        reading = json.loads(value)
        device = self._device.value() or Device(reading["device_id"])
        before = device.due
        device.add(ctx.timestamp(), reading["session_id"], reading["state"])
        if device.due != before:
            ctx.timer_service().register_event_time_timer(device.due)
        self._device.update(device)
        return iter(())

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[str]:
        """A point of the device's grid."""
        device = self._device.value()
        if device is None or device.due != timestamp:
            return
        yield from device.catch_up(timestamp)
        if device.due is None:
            self._device.clear()
            return
        ctx.timer_service().register_event_time_timer(device.due)
        self._device.update(device)


if __name__ == "__main__":
    of = given()
    flow = StreamExecutionEnvironment.get_execution_environment(configuration(of))
    # Flink's watermark lies a millisecond lower: a timer of that very moment has fired elsewhere.
    late = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(LATE - 1))
    readings = flow.from_source(source(of), WatermarkStrategy.no_watermarks(), "readings", Types.STRING())
    readings = readings.set_parallelism(of.partitions).assign_timestamps_and_watermarks(
        late.with_timestamp_assigner(Times())
    )
    by_device = readings.set_parallelism(of.partitions).key_by(
        lambda line: json.loads(line)["device_id"], Types.STRING()
    )
    by_device.process(Heartbeats(), Types.STRING()).sink_to(sink(of))
    flow.execute("device_heartbeats")
