"""Reads the output at the place of a crash matrix, and compares two that were read: a process of Streamwarden's own.

The program that restarts the stream runs in the stream's environment, with the stream's Spark and little else. What
reads an output without Spark, and what compares rows, is installed beside Streamwarden. So that program starts this
one, and asks it over its pipes (see `judge`): a question is a line of JSON, and so is each answer.

Argument: the folder with the stream's spec.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streamwarden.config.stored_spec import spec_from_dict
from streamwarden.drills.crash_states import Ending
from streamwarden.lifecycle import driver_folder as files
from streamwarden.services.verifying.outputs import compare_outputs
from streamwarden.sinks.base import Sink
from streamwarden.sinks.output import Output
from streamwarden.stream.spec import StreamSpec


@dataclass
class Outputs:
    """The outputs that were read, by the name that the asking program gave each."""

    spec: StreamSpec
    kept: dict[str, Output] = field(default_factory=dict)

    def read(self, name: str, until: int) -> str:
        """Read the output at the place, which has the batches up to `until`. Returns the error in words, empty if there
        was none."""
        assert isinstance(self.spec.sink, Sink), "it was forked"
        try:
            self.kept[name] = self.spec.sink.read(self.spec, {}, committed=until, first=0, deduplicated=True)
        except Exception as error:  # any error of the reader of the output is a loud refusal
            return f"{type(error).__name__}: {error}"
        return ""

    def compare(self, expected: str, actual: str) -> tuple[Ending, str]:
        """How a restart with this output ended, and why."""
        right, found = self.kept[expected], self.kept.pop(actual)
        reported = [problem for problem in found.problems if problem not in right.problems]
        if reported:
            return Ending.REFUSED, f"the reader of the output: {'; '.join(reported)}"
        comparison = compare_outputs(right, found, key=())
        if comparison.lost or comparison.duplicated or comparison.unexpected:
            counts = f"{comparison.lost} lost, {comparison.duplicated} duplicated, {comparison.unexpected} unexpected"
            return Ending.DIFFERENT, "; ".join((counts, *(texts[0] for texts in comparison.samples.values())))
        return Ending.RIGHT, f"{comparison.actual} rows"

    def answer(self, question: Mapping[str, Any]) -> Mapping[str, str]:
        """Answer `{"read": NAME, "until": BATCH}` or `{"compare": NAME, "with": NAME}`."""
        if "read" in question:
            return {"refused": self.read(question["read"], question["until"])}
        ending, detail = self.compare(question["compare"], question["with"])
        return {"ending": ending, "detail": detail}


def main(folder: Path) -> None:
    """Answer until there are no more questions."""
    document = files.read_spec(folder)
    assert document is not None, "the caller wrote it"
    outputs = Outputs(spec_from_dict(document))
    answers, sys.stdout = sys.stdout, sys.stderr  # what a library prints is no answer
    for line in sys.stdin:
        print(json.dumps(outputs.answer(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
