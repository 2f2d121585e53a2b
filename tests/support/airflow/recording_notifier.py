"""Airflow notifiers for tests: one that writes down what it was told, one that cannot be reached."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow.sdk import BaseNotifier


class RecordingNotifier(BaseNotifier):
    """Appends its rendered text to a file."""

    template_fields = ("text",)

    def __init__(self, text: str, file: str) -> None:
        super().__init__()
        self.text, self.file = text, file

    def notify(self, context: Any) -> None:
        with Path(self.file).open("a") as file:
            file.write(self.text + "\n")


class UnreachableNotifier(BaseNotifier):
    """Fails as a chat server that is down does."""

    def notify(self, context: Any) -> None:
        raise ConnectionError("chat.example is down")
