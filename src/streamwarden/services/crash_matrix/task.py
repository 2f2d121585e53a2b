"""The scope of a crash matrix, and the files it exchanges with its Spark program."""

from typing import Final

TASK: Final = "task.json"
OUTCOMES: Final = "outcomes.jsonl"

BATCHES: Final = 12
"""Batches of the run without a crash: in the tenth Spark compacts its logs of files."""

AROUND: Final = (7, 8, 9, 10)
"""The batches around which the states lie: before, in and after the compaction. Around three batches a kill leaves some
80 states of a stream whose rows go into a table, and around four it leaves a hundred."""
