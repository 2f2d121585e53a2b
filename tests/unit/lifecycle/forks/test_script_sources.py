"""What the first start of a script declares of its sources, what later starts change, and what no one checks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamwarden.lifecycle.forks.script_sources import changes, declared, is_read, unchecked
from streamwarden.lifecycle.forks.scripts import ForkQuery, OutputKind
from streamwarden.lifecycle.script_queries import NamedInput

FILES = NamedInput(format="json", path="/data/in", options={"path": "in", "multiLine": "true"}, schema="struct<id:int>")
TOPIC = NamedInput(format="kafka", topic="orders", options={"subscribe": "orders", "kafka.sasl.jaas.config": "a"})


def with_options(source: NamedInput, **options: str) -> NamedInput:
    return replace(source, options={**source.options, **options})


@pytest.mark.parametrize(
    ("later", "said"),
    [
        (
            with_options(FILES, pathGlobFilter="00*"),
            "the option pathGlobFilter of /data/in (json) is 00*, and was not set",
        ),
        (with_options(FILES, multiLine="false"), "the option multiLine of /data/in (json) is false, and was true"),
        (replace(FILES, path="/data/less"), "it reads /data/less (json), and the first start read /data/in (json)"),
        (replace(FILES, format="csv"), "it reads /data/in (csv), and the first start read /data/in (json)"),
        (replace(FILES, schema="struct<>"), "the schema of /data/in (json) is struct<>, and was struct<id:int>"),
    ],
)
def test_a_later_start_that_declares_another_source_is_named(later: NamedInput, said: str) -> None:
    assert changes([FILES, TOPIC], [later, TOPIC]) == (said,)


def test_another_number_of_sources_is_a_change() -> None:
    assert changes([FILES, TOPIC], [FILES]) == ("it reads 1 source, and the first start read 2",)


@pytest.mark.parametrize(
    "later",
    [
        FILES,
        with_options(FILES, maxFilesPerTrigger="7"),  # a fork cuts the input by the files that are there
        replace(FILES, options={"MULTILINE": "true", "path": "/data/in"}),
        with_options(FILES, startingTimestamp="5"),
    ],
)
def test_the_same_input_at_another_pace_is_no_change(later: NamedInput) -> None:
    assert changes([FILES], [later]) == ()


def test_no_secret_is_kept_and_another_one_is_a_change() -> None:
    first, later = (
        declared(replace(TOPIC, options={"kafka.sasl.jaas.config": text}), None) for text in ("secret one", "other")
    )
    assert "secret" not in str(first)
    (said,) = changes([first], [later])
    assert said.startswith("the option kafka.sasl.jaas.config of the topic orders (kafka) is sha256 ")


@pytest.mark.parametrize("name", ["pathGlobFilter", "maxFileAge", "latestFirst", "modifiedBefore", "modifiedAfter"])
def test_an_option_that_leaves_files_out_is_named(name: str) -> None:
    source = with_options(FILES, **{name.lower(): "true"})
    assert unchecked(source, can_list=True) == f"which files of /data/in were read (the script sets {name})"


@pytest.mark.parametrize(
    ("source", "can_list", "said"),
    [
        (FILES, True, None),
        (with_options(FILES, latestFirst="false"), True, None),
        (replace(FILES, path="/data/*/in"), False, "which files of /data/*/in were read (its path is a pattern)"),
        (
            FILES,
            False,
            "which files of /data/in were read (the folder cannot be listed, or is the output of another query)",
        ),
        (TOPIC, True, "which records of the topic orders (kafka) were read"),
    ],
)
def test_what_no_one_checks_is_said(source: NamedInput, can_list: bool, said: str | None) -> None:
    assert unchecked(source, can_list=can_list) == said


@pytest.mark.parametrize(
    ("name", "recursive", "read"),
    [
        ("a.json", False, True),
        ("archive/a.json", False, False),
        ("archive/a.json", True, True),
        ("day=2/a.json", False, True),
        ("day=2/more/a.json", False, True),
        ("a.json._COPYING_", False, False),
    ],
)
def test_a_subfolder_is_read_if_it_is_a_partition_or_the_source_asks_for_it(
    name: str, recursive: bool, read: bool
) -> None:
    assert is_read(name, recursive=recursive) == read


def test_what_the_first_start_declared_is_kept_and_each_change_is_added_once() -> None:
    def start(*sources: NamedInput) -> ForkQuery:
        return ForkQuery(
            name="q",
            order=1,
            checkpoint="/c",
            kind=OutputKind.FILES,
            output="/o",
            instead_of="/x",
            format="parquet",
            sources=sources,
        )

    first = replace(start(FILES), listed={"/data/in": ["a.json", "b.json"]}).began_as(None)
    second = start(with_options(FILES, pathGlobFilter="a*")).began_as(first)
    third = start(with_options(FILES, pathGlobFilter="a*")).began_as(second)
    assert (third.sources, third.listed) == (first.sources, first.listed)
    assert third.changed == second.changed == ("the option pathGlobFilter of /data/in (json) is a*, and was not set",)
    assert third.unchecked == ()
