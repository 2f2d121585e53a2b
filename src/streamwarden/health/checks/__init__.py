"""The checks, one module each. The order is the order in which people see them."""

from __future__ import annotations

from typing import Final

from streamwarden.health.check import Check
from streamwarden.health.checks import (
    backlog,
    batch_longer_than_trigger,
    broker_unreachable,
    checkpoint_duration,
    database_unreachable,
    driver_down,
    input_lost,
    late_rows,
    memory_usage,
    partition_skew,
    progress_stalled,
    query_ended,
    replay_debt,
    restart_loop,
    state_cleanup_time,
    state_growth,
    state_size,
    state_update_latency,
    topic_lag,
    watermark_stalled,
)

CHECKS: Final[tuple[Check, ...]] = (
    state_size.CHECK,
    checkpoint_duration.CHECK,
    state_update_latency.CHECK,
    state_cleanup_time.CHECK,
    memory_usage.CHECK,
    broker_unreachable.CHECK,
    database_unreachable.CHECK,
    driver_down.CHECK,
    progress_stalled.CHECK,
    batch_longer_than_trigger.CHECK,
    backlog.CHECK,
    topic_lag.CHECK,
    input_lost.CHECK,
    watermark_stalled.CHECK,
    restart_loop.CHECK,
    query_ended.CHECK,
    replay_debt.CHECK,
    state_growth.CHECK,
    late_rows.CHECK,
    partition_skew.CHECK,
)
