"""Whether a storage that is silent on this host answers on another one, by what the others report."""

from __future__ import annotations

import pytest

from streamwarden.lifecycle.hosts.elsewhere import reached_by
from streamwarden.lifecycle.hosts.report import HostReport

SILENT_SINCE = 1_000.0


@pytest.mark.parametrize(
    ("reports", "drained", "expected"),
    [
        ([], (), None),
        ([("two", "ours", 8)], (), "two"),
        ([("two", "ours", 7)], (), None),  # it may have read the storage before it fell silent
        ([("two", "ours", -3)], (), None),
        ([("two", "another", 8)], (), None),
        ([("two", "", 8)], (), None),  # it could not read its data folder
        ([("one", "ours", 8)], (), None),  # this host itself
        ([("two", "ours", 8)], ("two",), None),  # it may start nothing
        ([("two", "ours", 8), ("three", "ours", 8)], ("two",), "three"),
    ],
)
def test_a_host_counts_that_has_read_the_same_storage_in_the_silence(
    reports: list[tuple[str, str, float]], drained: tuple[str, ...], expected: str | None
) -> None:
    given = [report(*each) for each in reports]
    assert reached_by(given, drained, here="one", storage="ours", silent_since=SILENT_SINCE) == expected


def report(name: str, storage: str, after: float) -> HostReport:
    return HostReport(
        name=name,
        identity=f"{name}/boot/1",
        started_at=0.0,
        heartbeat_at=SILENT_SINCE + after,
        cores=2,
        memory_bytes=1,
        available_bytes=1,
        data="/data",
        storage=storage,
        versions={},
    )
