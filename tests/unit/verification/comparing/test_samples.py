"""A row of an output as text, with the batch that wrote it: what is written can be read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamwarden.verification.comparing.samples import Sample, parse_sample

WORDS = st.text(alphabet="abc(),: ;=<>\n1", max_size=30)


@given(row=WORDS, batch=st.none() | st.integers(0, 10**9), read=WORDS)
def test_what_is_written_can_be_read_back(row: str, batch: int | None, read: str) -> None:
    sample = Sample(row, due=read) if batch is None else Sample(row, batch, read)
    assert parse_sample(str(sample)) == sample


@pytest.mark.parametrize(
    ("text", "sample"),
    [
        ("(a, 1): (2)", Sample("(a, 1): (2)")),
        ("(a): (2); written by batch 7", Sample("(a): (2)", 7)),
        ("(a): (2); written by batch 7, which read t-0 from 3 to 9", Sample("(a): (2)", 7, "t-0 from 3 to 9")),
        ("(a): (2); due from a.json line 3: {}", Sample("(a): (2)", due="a.json line 3: {}")),
        ("counts: (a): (2); written by batch seven", Sample("counts: (a): (2); written by batch seven")),
    ],
)
def test_journals_as_they_are_stored(text: str, sample: Sample) -> None:
    assert parse_sample(text) == sample
