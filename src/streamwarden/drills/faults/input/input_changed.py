"""input_doubled, input_late, input_out_of_order: the input changes between two batches.

The driver is stopped at a batch boundary, the fork's own input is changed, and the next driver finds it so: the driver
of a fork lists its bounded input once, when it starts.

What Spark reads next is decided by the times of the files, oldest first. So a file that is to come later is replaced by
a copy with a newer time. The verification fails if a file is read in another order than by its time, or never: what
landed was therefore also read, in the order that the proof shows.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import ClassVar, Final

from streamwarden.drills.faults.base import Description, FaultContext, LiveUse, Proof, Strike
from streamwarden.drills.faults.driver.controlled_restart import ControlledRestart
from streamwarden.drills.faults.input.own_input import INPUTS, require_files
from streamwarden.stream.spec import StreamSpec

MOST_SHUFFLED: Final = 32
"""Files that `input_out_of_order` puts into another order, and so copies."""

_JUDGED: Final = (
    "The oracle and the twin are given the same files in the same batches. A row that is late by then is dropped, and "
    "the report has their number. "
)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputChanged(ControlledRestart):
    """Proof: that of ControlledRestart, and the files that no batch has read are as the strike left them.

    `next` is the order in which Spark will read them.
    """

    live: ClassVar[LiveUse] = LiveUse(allowed=False, reason="it changes the input of the stream")

    def require(self, stream: str, declared: StreamSpec) -> None:
        """Spark reads files by their times."""
        require_files(self, stream, declared)
        options = {key.lower(): value.lower() for key, value in declared.source.options.items()}
        if options.get("latestfirst") == "true":
            raise self.not_applicable(
                stream,
                f"{stream} reads the newest files first (`latestFirst`)",
                expected="a stream that reads the oldest files first",
                next_step="drill this stream with `input_gone`",
            )

    @abstractmethod
    def change(self, context: FaultContext, unread: Sequence[str]) -> tuple[Sequence[str], str]:
        """Change the input. Returns the newest or oldest unread files that it has to have then, in order, and what was
        done, in words; no files: nothing could be done."""

    @abstractmethod
    def holds(self, wanted: Sequence[str], unread: Sequence[str]) -> bool:
        """Whether the unread files are as `change` wanted them."""

    def strike(self, context: FaultContext, *, deadline: float) -> Strike:
        strike = ControlledRestart.strike(self, context, deadline=deadline)  # without super(): see KillDriver
        position = context.ports.checkpoint.position(context.fork)
        if strike.moment is None or context.observe().alive or position.gap:
            return strike
        before = context.ports[INPUTS].unread(context.fork)
        wanted, message = self.change(context, before)
        return replace(strike, message=message, evidence={"before": list(before), "wanted": list(wanted)})

    def prove(self, context: FaultContext, strike: Strike | None) -> Proof:
        proof = ControlledRestart.prove(self, context, strike)
        strike_evidence = strike.evidence if strike is not None else {}
        wanted, unread = strike_evidence.get("wanted", ()), context.ports[INPUTS].unread(context.fork)
        there = bool(wanted) and self.holds(wanted, unread)
        evidence = {**proof.evidence, **strike_evidence, "next": list(unread)}
        if proof.landed:
            done = strike.message if strike is not None else "the process that struck died before the input was changed"
            change = done if there or not wanted else f"{done}, but the input does not have it so"
            proof = replace(proof, message=f"{proof.message}; {change}")
        copies = tuple(context.ports[INPUTS].copies(context.fork))
        return replace(proof, landed=proof.landed and there, evidence=evidence, copies=copies)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputDoubled(InputChanged):
    """A file of the last committed batch is there again under another name, to be read next."""

    kind: str = "input_doubled"
    deduplicates: bool | None = None
    """true: the job drops repeated rows, so its output must be that of the input without the copy, which the job's own
    oracle tells"""
    event: ClassVar[str] = "the arrival of a file for the second time"
    proof: ClassVar[str] = "No batch was cut; the copy is in the input and is read next."
    description: ClassVar[Description] = Description(
        does="Stops the driver at a batch boundary, and copies a file that the last batch has read. The copy has "
        "another name and is read next.",
        promise="Spark knows files by their names: it reads the copy as new input. What its rows mean is up to the "
        "job. The oracle and the twin read the copy too, and the report says how many rows of the output differ from "
        "those without the copy. With `deduplicates: true` no row may differ.",
        seen="`flight_dedup` wrote what it writes without the copy.",
        next_step="Let the job drop repeated rows (`dropDuplicatesWithinWatermark`) if its producer may deliver a file "
        "twice.",
    )

    @property
    def drops_copies(self) -> bool:
        return self.deduplicates is True

    def change(self, context: FaultContext, unread: Sequence[str]) -> tuple[Sequence[str], str]:
        committed = context.ports.checkpoint.position(context.fork).committed
        read = () if committed is None else context.ports[INPUTS].files_of(context.fork, committed)
        if not read or not unread:
            return (), f"batch {committed} read no file that could come again, or no file is left to read"
        copy = context.ports[INPUTS].double(context.fork, read[-1])
        return (copy,), f"{read[-1]}, which batch {committed} has read, is in the input again as {copy}"

    def holds(self, wanted: Sequence[str], unread: Sequence[str]) -> bool:
        return tuple(unread[: len(wanted)]) == tuple(wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputLate(InputChanged):
    """The file that is the next one becomes the last one."""

    kind: str = "input_late"
    event: ClassVar[str] = "the late arrival of a file"
    proof: ClassVar[str] = "No batch was cut; the file is the last one that no batch has read."
    recovery: ClassVar[str] = "The start that follows; the report says how many rows were late."
    description: ClassVar[Description] = Description(
        does="Stops the driver at a batch boundary, and makes the file that would be read next the last one.",
        promise=f"{_JUDGED}A file is late if the watermark is already past its rows.",
        seen="The output was right: the rows that were late by the watermark were missing, and no others.",
        next_step="Compare the rows that are dropped as late with the delay of the watermark. Make the delay longer if "
        "such rows have to count.",
    )

    def change(self, context: FaultContext, unread: Sequence[str]) -> tuple[Sequence[str], str]:
        folders = [file.rpartition("/")[0] for file in unread]
        late = next((file for at, file in enumerate(unread) if folders[at] in folders[at + 1 :]), None)
        if late is None:
            return (), "fewer than two files are left to read"
        context.ports[INPUTS].read_last(context.fork, [late])
        return (late,), f"{late} comes after {len(unread) - 1} other files now"

    def holds(self, wanted: Sequence[str], unread: Sequence[str]) -> bool:
        return tuple(unread[-len(wanted) :]) == tuple(wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputOutOfOrder(InputLate):
    """The last files of the input are in another order, drawn from the seed of the run."""

    kind: str = "input_out_of_order"
    event: ClassVar[str] = "an input that is out of order"
    proof: ClassVar[str] = "No batch was cut; the files that no batch has read are in that order."
    recovery: ClassVar[str] = "The start that follows; the report says how many rows were late."
    description: ClassVar[Description] = Description(
        does=f"Stops the driver at a batch boundary, and puts the last files of the input, {MOST_SHUFFLED} at most, "
        "into another order, which is drawn from the seed of the run.",
        promise=_JUDGED.strip(),
        seen="The output was right: the rows that were late by the watermark were missing, and no others.",
        next_step="Nothing, if the rows that are dropped as late are few enough. Otherwise make the delay of the "
        "watermark longer than the input is out of order.",
    )

    def change(self, context: FaultContext, unread: Sequence[str]) -> tuple[Sequence[str], str]:
        before = list(unread[-MOST_SHUFFLED:])
        if len(before) < 2:
            return (), "fewer than two files are left to read"
        shuffled = another_order(before, Random(context.seed))  # noqa: S311  # no secret; a replay has to draw the same
        context.ports[INPUTS].read_last(context.fork, shuffled)
        return tuple(shuffled), f"the last {len(shuffled)} files are in another order now, from the seed {context.seed}"


def another_order(files: Sequence[str], random: Random) -> list[str]:
    """These at least two files in an order that is not the one they have. Pure, but for `random`."""
    shuffled = list(files)
    random.shuffle(shuffled)
    return shuffled if shuffled != list(files) else [*files[1:], files[0]]
