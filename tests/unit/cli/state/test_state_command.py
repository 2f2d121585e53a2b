"""`streamwarden state`: what a look prints. The looks themselves are functions here."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from streamwarden.cli.commands.state import showing_words
from streamwarden.cli.exit_codes import Exit
from streamwarden.lifecycle.time_travel.answers import Change, Difference, Entry, History, Moment, Share, Shown
from streamwarden.lifecycle.time_travel.tables import StateTable, TableKind
from streamwarden.services.state import looking
from streamwarden.services.state.looking import Look
from support.command_line import CommandLine

FIELDS = ("window.start", "carrier")
KEY = ("2013-01-01 05:00:00", "UA")
TABLE = StateTable(operator=0, name="stateStoreSave", kind=TableKind.ROWS)
SHOWN = Shown(
    fields=FIELDS,
    rows=3214,
    entries=(
        Entry(partition=3, key=KEY, value='{"n":3,"name":"[red]a\\u001b"}', expires_ms=1_356_998_400_000),
        Entry(partition=0, key=(None, "x\x1b[2J"), item='{"second":4}', value='{"n":1}'),
        Entry(partition=0, key=("", "y"), value=None),
    ),
    partitions=tuple(Share(partition=number, rows=7 - number, bytes=80) for number in range(7)),
    largest=(Share(key=KEY, rows=12, bytes=9600),),
)


def look(answer: Any, *batches: int) -> Look[Any]:
    return Look(stream="counted", table=TABLE, batches=batches, committed_at=None, kept=(2, 3, 4, 6), answer=answer)


@dataclass
class Looks:
    """Stands for a function of `looking`."""

    answer: Look[Any]
    asked: list[tuple[tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)

    def __call__(self, spec: Any, *given: Any, **options: Any) -> Look[Any]:
        self.asked.append((given, options))
        return self.answer


@pytest.fixture
def stream(cli: CommandLine) -> str:
    cli.project.stream("counted")
    return "counted"


def looked(patch: pytest.MonkeyPatch, name: str, answer: Look[Any]) -> Looks:
    patch.setattr(looking, name, made := Looks(answer))
    return made


def test_show_prints_rows_partitions_and_the_largest_keys(
    cli: CommandLine, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = looked(monkeypatch, "show", look(SHOWN, 4))
    answer = cli(
        "state", "show", stream, "--batch", "4", "--key", "carrier=UA", "--key", "window.start=x", "--rows", "3"
    )
    assert answer.code == Exit.OK, answer.err
    (chosen,), options = made.asked[0]
    assert chosen.keys == ("carrier=UA", "window.start=x")
    assert options == {"batch": 4, "rows": 3}
    for words in (
        "counted, operator 0 (stateStoreSave), after batch 4; the checkpoint keeps batches 2-4, 6",
        "window.start=2013-01-01 05:00:00, carrier=UA",
        "n=3, name=[red]a\\x1b",
        "2013-01-01 00:00:00 UTC",
        "window.start=null, carrier=x\\x1b[2J",
        "second=4: n=1",
        "The first 3 of 3,214 rows",
        "7 partitions have rows.",
        "9.6 kB",
    ):
        assert words in answer.out
    assert "\x1b[2J" not in answer.out


def test_json_has_all_of_it(cli: CommandLine, stream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looked(monkeypatch, "show", look(SHOWN, 4))
    found = cli("state", "show", stream, "--json").json
    assert (found["batches"], found["kept"], found["rows"]) == ([4], [2, 3, 4, 6], 3214)
    assert found["entries"][0]["key"] == list(KEY)
    assert found["table"]["variable"] is None


def test_an_empty_state_is_said(cli: CommandLine, stream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looked(monkeypatch, "show", look(replace(SHOWN, rows=0, entries=(), partitions=(), largest=()), 4))
    answer = cli("state", "show", stream)
    assert answer.code == Exit.OK
    assert "The state has no row." in answer.out


def test_a_history_shows_the_stretches(cli: CommandLine, stream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Entry(partition=0, key=("UA",), value='{"n":1}')
    moments = (
        Moment(batch=2, rows=0, entries=()),
        Moment(batch=3, rows=1, entries=(first,)),
        Moment(batch=4, rows=1, entries=(first,)),
        Moment(batch=6, rows=9, entries=(replace(first, value='{"n":2}'),)),
    )
    made = looked(monkeypatch, "history", look(History(fields=("carrier",), moments=moments), 2, 3, 4, 6))
    answer = cli("state", "show", stream, "--key", "UA", "--history", "--last", "4")
    assert answer.code == Exit.OK, answer.err
    assert made.asked[0][1] == {"last": 4}
    rows = [line.split() for line in answer.out.splitlines()]
    assert ["2", "0", "no", "row"] in rows
    assert ["3-4", "1", "n=1"] in rows
    assert ["6", "9", "n=2"] in rows
    assert "and 8 other rows" in answer.out


@pytest.mark.parametrize("given", [("--history",), ("--history", "--key", "UA", "--batch", "3")])
def test_a_history_is_of_a_key_and_of_all_batches(cli: CommandLine, stream: str, given: tuple[str, ...]) -> None:
    answer = cli("state", "show", stream, *given)
    assert answer.code == Exit.USAGE
    assert "--key, and no --batch" in answer.err


def test_a_difference_prints_counts_growth_and_a_sample(
    cli: CommandLine, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = '{"item":null,"value":"{\\"n\\":3}","expires_ms":1356998400000}'
    change = Change(key=KEY, rows_before=2, rows_after=5, bytes_before=16, bytes_after=4000, before=None, after=row)
    gone = replace(change, key=("a", "b"), rows_after=0, before='{"value":"{\\"n\\":9}"}', after=None)
    new = replace(change, key=("c", "d"), rows_before=0)
    answer = Difference(
        fields=FIELDS,
        rows_before=1000,
        rows_after=2000,
        appeared=1111,
        vanished=2,
        changed=3,
        unchanged=4,
        grew=2,
        shrank=1,
        growth=(change,),
        sample=(change, gone, new),
    )
    made = looked(monkeypatch, "diff", look(answer, 2, 6))
    found = cli("state", "diff", stream, "--from", "2", "--to", "6", "--variable", "v")
    assert found.code == Exit.OK, found.err
    assert made.asked[0][1] == {"before": 2, "after": 6, "rows": 20}
    words = " ".join(found.out.split())
    for expected in (
        "after batches 2 to 6",
        "keys: 1,111 appeared, 2 vanished, 3 changed (2 grew, 1 shrank), 4 are as they were; rows: 1,000 → 2,000",
        "carrier=UA 2 → 5 16 B → 4.0 kB",
        "n=3 expires 2013-01-01 00:00:00 UTC",
        "window.start=a, carrier=b vanished n=9 -",
        "window.start=c, carrier=d appeared -",
        "The first 3 of 1,116 keys",
    ):
        assert expected in words


def test_an_export_says_where_it_is(
    cli: CommandLine, stream: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from streamwarden.lifecycle.time_travel.answers import Exported
    from streamwarden.services.state import exports

    monkeypatch.setattr(exports, "export_to", Looks(look(Exported(rows=1234), 4)))
    answer = cli("state", "export", stream, "--to", str(tmp_path / "s.csv"))
    assert answer.code == Exit.OK, answer.err
    assert (
        f"1,234 rows of counted, operator 0 (stateStoreSave), after batch 4 are in {tmp_path / 's.csv'}" in answer.out
    )


def test_errors_of_the_command_line(cli: CommandLine, stream: str) -> None:
    assert cli("state", "show", "nobody").code == Exit.USAGE
    assert "no checkpoint yet" in cli("state", "show", stream).err
    assert cli("state", "export", stream, "--to", "s.json").code == Exit.USAGE


def test_a_long_value_is_cut_off() -> None:
    words = showing_words.value_words('{"data":"' + "x" * 5000 + '"}')
    assert words.endswith("… (5,005 characters)")
    assert len(words) < 250
