"""The checks, one module each. The order is the order in which people see them."""

from typing import Final

from streamwarden.health.check import Check
from streamwarden.health.checks.batches import (
    batch_longer_than_trigger,
    batches_skipped,
    checkpoint_duration,
    progress_stalled,
)
from streamwarden.health.checks.driver import driver_down, memory_usage, query_ended, resources_pending, restart_loop
from streamwarden.health.checks.input import (
    backlog,
    files_read_again,
    input_lost,
    late_rows,
    malformed_not_kept,
    malformed_rows,
    topic_lag,
    watermark_ahead,
    watermark_stalled,
)
from streamwarden.health.checks.services import broker_unreachable, database_unreachable
from streamwarden.health.checks.state import (
    metadata_growth,
    partition_skew,
    replay_debt,
    savepoint_overdue,
    snapshot_lag,
    state_cleanup_time,
    state_growth,
    state_size,
    state_update_latency,
    versions_kept,
)
from streamwarden.health.checks.tables import compaction_overdue, small_files, table_log

CHECKS: Final[tuple[Check, ...]] = (
    state_size.CHECK,
    checkpoint_duration.CHECK,
    state_update_latency.CHECK,
    state_cleanup_time.CHECK,
    memory_usage.CHECK,
    broker_unreachable.CHECK,
    database_unreachable.CHECK,
    driver_down.CHECK,
    resources_pending.CHECK,
    progress_stalled.CHECK,
    batch_longer_than_trigger.CHECK,
    backlog.CHECK,
    topic_lag.CHECK,
    input_lost.CHECK,
    malformed_rows.CHECK,
    malformed_not_kept.CHECK,
    watermark_ahead.CHECK,
    files_read_again.CHECK,
    batches_skipped.CHECK,
    watermark_stalled.CHECK,
    restart_loop.CHECK,
    query_ended.CHECK,
    replay_debt.CHECK,
    snapshot_lag.CHECK,
    versions_kept.CHECK,
    savepoint_overdue.CHECK,
    state_growth.CHECK,
    late_rows.CHECK,
    partition_skew.CHECK,
    metadata_growth.CHECK,
    small_files.CHECK,
    table_log.CHECK,
    compaction_overdue.CHECK,
)

CHECK_NAMES: Final = frozenset(check.name for check in CHECKS)
