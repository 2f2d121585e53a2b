"""The files by which a crash matrix and its Spark program communicate."""

from __future__ import annotations

from typing import Final

TASK: Final = "task.json"
OUTCOMES: Final = "outcomes.jsonl"
