"""What a person may ask of a stream in its present state, the verb that it needs first. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from streamwarden.services.overview.status import State


@dataclass(frozen=True, slots=True)
class Verb:
    """A button of the stream's page.

    Args:
        name: `start`, `stop` or `restart`; its DAG is `NAME_stream`.
        text: what happens, for the dialog.
        style: `primary` for the one verb that the state calls for, `danger`, or empty.
    """

    name: str
    label: str
    text: str
    style: str = ""

    @property
    def dag_id(self) -> str:
        return f"{self.name}_stream"


_BOUNDARY: Final = "The running batch commits, then the stream stops"
START: Final = Verb("start", "Start", "The stream runs from now on, with a fresh budget of restarts.", "primary")
STOP: Final = Verb("stop", "Stop", f"{_BOUNDARY}, and stays stopped until a person starts it.", "danger")
KEEP_DOWN: Final = Verb("stop", "Stop", "It is not restarted, and stays stopped until a person starts it.", "danger")
RESTART: Final = Verb("restart", "Restart", f"{_BOUNDARY} and starts again with its file as it is now.")
REPLACE: Final = Verb(
    "restart", "Restart", "The driver is ended, and a new one starts with the file as it is now.", "primary"
)

_VERBS: Final[Mapping[State, tuple[Verb, ...]]] = {
    "running": (RESTART, STOP),
    "starting": (RESTART, STOP),
    "ended": (REPLACE, STOP),
    "unresponsive": (REPLACE, STOP),
    "unseen": (REPLACE, STOP),
    "down": (START, KEEP_DOWN),
    "broken": (START, KEEP_DOWN),
    "completed": (START,),
    "stopped": (START,),
    "new": (START,),
}


def verbs(state: State) -> tuple[Verb, ...]:
    """The verbs that make sense in this state, the one that it calls for first."""
    return _VERBS[state]
