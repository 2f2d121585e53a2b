"""The page about a stream's file says what the types say."""

from pathlib import Path

from streamwarden.config.reference import MEANINGS, keys, page

ROOT = Path(__file__).parents[3]


def test_the_page_is_what_the_types_say() -> None:
    """Otherwise: python -m streamwarden.config.reference > docs/reference/stream.md"""
    assert (ROOT / "docs/reference/stream.md").read_text() == page()


def test_every_key_has_a_meaning_and_no_meaning_lacks_its_key() -> None:
    assert {key for key, _, _ in keys()} == set(MEANINGS)
