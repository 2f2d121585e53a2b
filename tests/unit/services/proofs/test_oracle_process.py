"""An oracle answers in a process of its own, in which what a run wrote is closed to it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamwarden.errors import VerificationError
from streamwarden.services.verifying.oracle_process import ask_oracle
from streamwarden.verification.oracle import RunFacts

WAYS = """
    import contextlib, glob, json, os, pathlib, sqlite3, subprocess, sys
    import pyarrow.parquet
    from streamwarden.services.verifying.oracle_fence import Fence

    drill, given = sys.argv[1:]
    beside = os.path.dirname(drill)
    fence = Fence([drill], [given])
    sealed = fence.raise_it()
    WAYS = {
        "open": lambda place: open(f"{place}/part", "rb").read(),
        "open, relative": lambda place: open(os.path.relpath(f"{place}/part"), "rb").read(),
        "open, by a link": lambda place: open(f"{beside}/link/{os.path.relpath(place, drill)}/part", "rb").read(),
        "os.open": lambda place: os.read(os.open(f"{place}/part", os.O_RDONLY), 1),
        "os.listdir": os.listdir,
        "os.walk": lambda place: list(os.walk(place))[0],
        "glob": lambda place: glob.glob(f"{place}/*")[0],
        "pathlib": lambda place: list(pathlib.Path(place).iterdir()),
        "sqlite3": lambda place: sqlite3.connect(f"file:{place}/part?mode=ro", uri=True),
        "a second name": lambda place: os.link(f"{place}/part", f"{place}/mine"),
        "pyarrow": lambda place: pyarrow.parquet.read_table(f"{place}/part"),
        "a program": lambda place: subprocess.run(["cat", f"{place}/part"], check=True, capture_output=True),
    }
    read = {}
    for place in (f"{drill}/fork/output", given):
        read[os.path.basename(place)] = done = []
        for name, way in WAYS.items():
            with contextlib.suppress(Exception):
                way(place)
                done.append(name)
    print(json.dumps({"sealed": sealed, "all": list(WAYS), **read}))
"""


def test_no_way_leads_to_what_a_run_wrote_and_every_way_to_its_input(tmp_path: Path) -> None:
    """The input is the negative control: what is refused is refused for its place."""
    drill = tmp_path / "drills" / "run"
    for folder in ("output", "input"):
        (drill / "fork" / folder).mkdir(parents=True)
        pq.write_table(pa.table({"a": [1]}), drill / "fork" / folder / "part")
    (tmp_path / "drills" / "link").symlink_to(drill)
    places = [str(drill), str(drill / "fork/input")]
    done = subprocess.run([sys.executable, "-c", dedent(WAYS), *places], cwd=tmp_path, capture_output=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    without_landlock = set() if found["sealed"] else {"pyarrow"}
    assert set(found["output"]) == without_landlock
    assert set(found["all"]) - set(found["input"]) == (set() if found["sealed"] else {"a program"})


ORACLE = """
    from streamwarden.verification.oracle import Expectation, RowCounts

    def expected(inputs, facts):
        {line}
        (file,) = inputs
        rows = {{(int(number),): () for number in file.read_text().split()}}
        counts = RowCounts(records=2, malformed=0, pairs=2, dropped=0, emitted=2, emitted_before=0, open=0)
        return Expectation(key_columns=("a",), value_columns=(), rows=rows, counts=counts)
"""


def ask(root: Path, line: str) -> dict[tuple[object, ...], tuple[object, ...]]:
    """The rows that an oracle with this line expects of a fork, whose input is in the same folder as its output."""
    for folder in ("oracles", "fork/input", "fork/output", "scratch"):
        (root / folder).mkdir(parents=True)
    (root / "oracles/job.py").write_text(dedent(ORACLE).format(line=line))
    (root / "fork/output/part").write_text("1")
    (root / "fork/input/0").write_text("1\n2\n")
    question = ([root / "fork/input/0"], RunFacts(files={}, watermarks={}, committed=None))
    (answer,) = ask_oracle(root / "job.py", [question], closed=[str(root / "fork")], into=root / "scratch")
    return dict(answer.rows)


@pytest.mark.parametrize(
    "line",
    [
        "{opened}.read()",
        "try: {opened}.read()\n    except Exception: pass",  # it must not help to go on without
    ],
)
def test_an_oracle_that_opens_the_output_is_refused_with_the_path(tmp_path: Path, line: str) -> None:
    output = tmp_path / "fork/output/part"
    with pytest.raises(VerificationError, match="the oracle is refused: it tried to read") as refused:
        ask(tmp_path, line.format(opened=f"open({str(output)!r})"))
    assert str(output) in refused.value.observed
    assert refused.value.where == str(tmp_path / "oracles/job.py")
    assert refused.value.expected
    assert refused.value.next_step


def test_an_oracle_that_reads_the_input_answers(tmp_path: Path) -> None:
    """The negative control."""
    assert ask(tmp_path, "print('not part of the answer')") == {(1,): (), (2,): ()}


def test_its_process_imports_nothing_that_takes_long(tmp_path: Path) -> None:
    """A verification waits for it: with what reads a stream's file it took six times as long."""
    heavy = {"pyarrow", "pydantic", "sqlalchemy", "yaml"}
    ask(tmp_path, f"import sys; assert not {heavy} & {{*sys.modules}}")


def test_an_oracle_that_raises_is_named_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(VerificationError, match=r"ZeroDivisionError: division by zero \(.*/oracles/job\.py, line 5\)"):
        ask(tmp_path, "1 / 0")


def test_an_oracle_that_ends_its_process_gives_no_expectation(tmp_path: Path) -> None:
    with pytest.raises(VerificationError, match="its process ended with status 3"):
        ask(tmp_path, "import os; os._exit(3)")
