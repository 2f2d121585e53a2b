"""Deliveries of one incident or event to one channel. Each channel has its own record, so one that fails is tried again
alone. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from streamwarden.health.verdict import Status

RETRY: Final = 45.0
"""Seconds after which a channel that refused a message is tried again: less than the time between two evaluations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """Times are Unix seconds.

    Args:
        subject: id of the incident or event.
        sent_at: when the last message was sent; None if none was.
        sent_status: the status of the incident in that message: OK once its end was sent.
        failed_at: when the channel refused a message; None if it accepted the last one.
        attempts: how often the subject was claimed for this channel.
    """

    subject: str
    channel: str
    sent_at: float | None = None
    sent_status: Status | None = None
    failed_at: float | None = None
    attempts: int = 0

    def claimed(self, status: Status, now: float) -> Delivery:
        """After a process has claimed a message with this status, before it sends the message."""
        return replace(self, sent_at=now, sent_status=status, failed_at=None, attempts=self.attempts + 1)

    def refused(self, attempts: int, now: float) -> Delivery:
        """After the channel refused the message that was claimed as attempt number `attempts`."""
        return replace(self, failed_at=now, attempts=attempts)

    def must_wait(self, now: float) -> bool:
        """Whether the channel refused a message just now."""
        return self.failed_at is not None and now - self.failed_at < RETRY
