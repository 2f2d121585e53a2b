"""Channels that keep what they are sent, and a round that sends to them."""

from __future__ import annotations

from dataclasses import dataclass, field

from streamwarden.adapters.store import Store
from streamwarden.services.notifying.messages import Notification
from streamwarden.services.notifying.notifiers import Channel
from streamwarden.services.notifying.sending import SendReport, send_due


@dataclass
class Pager:
    """A channel that keeps the titles that it accepts. `broken`: it refuses."""

    name: str = "pager"
    titles: list[str] = field(default_factory=list)
    bodies: list[str] = field(default_factory=list)
    broken: bool = False
    tries: int = 0

    def channel(self) -> Channel:
        return Channel(self.name, self.send)

    def send(self, message: Notification) -> None:
        self.tries += 1
        if self.broken:
            raise ConnectionError("https://chat.example/hooks/s3cret is down")
        self.titles.append(message.title)
        self.bodies.append(message.body)


def round_of(store: Store, *pagers: Pager, at: float = 1_800_000_000.0, **options: object) -> SendReport:
    """Send once what is due to these pagers; an open incident is sent again after an hour."""
    channels = [pager.channel() for pager in pagers]
    return send_due(store, channels, at, resend_interval=3600.0, **options)  # type: ignore[arg-type]
