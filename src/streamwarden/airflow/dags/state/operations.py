"""An operation that changes a stream: what a module says of it, for it to become a DAG with a form and an approval.

`changes.py` makes the DAG: it checks, asks a person, stops the stream where that is needed, carries out, and starts it
again.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

from airflow.sdk import Param

from streamwarden.errors import ConfigError
from streamwarden.lifecycle.exchanges.exchange import REWRITTEN
from streamwarden.redaction import redacted_text
from streamwarden.services.workspace import Workspace
from streamwarden.stream.spec import StreamSpec

STOP_FIRST: Final = Param(
    False,
    type="boolean",
    title="Stop it first",
    description="Stop the stream at a batch boundary, and start it again afterwards; otherwise a stream that runs is "
    "refused",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a person asked for in the form.

    Args:
        by: who asked and, after the approval, who approved.
        runs: whether a driver lives.
        tell: writes a line to the log; note: writes the note of the run.
        supervise: makes sure that Airflow supervises the stream.
    """

    space: Workspace
    spec: StreamSpec
    params: Mapping[str, Any]
    by: str
    runs: bool
    tell: Callable[[str], None]
    note: Callable[[str], None]
    supervise: Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What the first task found; it travels to the others as a mapping.

    Args:
        subject: the question to a person.
        said: heading -> what the request says, in Markdown.
        details: what the last task needs, so that it does what was approved.
    """

    subject: str
    said: Mapping[str, str]
    details: Mapping[str, Any] = field(default_factory=dict)

    def body(self, why: str) -> str:
        """The request in Markdown."""
        said = {**self.said, "Why": why}
        return redacted_text("\n".join(f"- **{heading}**: {text}" for heading, text in said.items())) + "\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What was done. `more`: for the log alone; well: whether it is what was asked for."""

    sentence: str
    more: str = ""
    well: bool = True


class Operation(ABC):
    """One operation. Both methods run with the connections of the stream published."""

    dag_id: ClassVar[str]
    doc: ClassVar[str]
    """In Markdown; its first line describes the DAG."""
    name: ClassVar[str]
    """A noun. It is the id of the last task, too."""
    check_name: ClassVar[str] = "check"
    """Id of the first task."""
    stops_first: ClassVar[bool] = True
    """It needs a stopped stream, and has the field `stop_first`; False: it stops and starts the stream by itself."""
    event: ClassVar[str] = REWRITTEN
    """Kind of the driver event that says that it is done."""

    @abstractmethod
    def fields(self) -> dict[str, Param]:
        """The fields of the form after the stream; one of them is `reason`."""

    @abstractmethod
    def check(self, asked: Asked) -> Checked:
        """Say what would be done; nothing of the stream is changed. Raises StreamwardenError if it would be refused."""

    def checked(self, asked: Asked) -> Checked:
        """What `check` says, and what becomes of the stream. Raises as `check`, and ConfigError if the stream runs and
        may not be stopped."""
        found = self.check(asked)
        if not self.stops_first:
            return found
        if asked.runs and not asked.params["stop_first"]:
            raise ConfigError(
                f"{asked.spec.name} runs",
                expected="a stream that is stopped",
                where=asked.spec.name,
                next_step="stop it, or let this run stop it at a batch boundary first",
            )
        runs = "It runs: it is stopped at a batch boundary first, and started again." if asked.runs else ""
        said = {**found.said, "The stream": f"{runs or 'It is stopped.'} The previous checkpoint is kept."}
        return replace(found, said=said)

    @abstractmethod
    def carry_out(self, asked: Asked, details: Mapping[str, Any]) -> Done:
        """Do what was approved, or complete what was interrupted. Raises StreamwardenError."""

    def was_done(self, asked: Asked, since: float) -> bool:
        """Whether an earlier try of this run has done it, and died before it could say so."""
        events = asked.space.store.drivers.events_of(asked.spec.name, self.event)
        return any(event.at >= since and event.detail["by"] == asked.by for event in events)

    def given_up(self, space: Workspace, params: Mapping[str, Any]) -> None:
        """Forget what was kept for the last task: nobody approved it. Raises OSError."""
        return  # as a rule nothing was
