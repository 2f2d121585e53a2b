"""The reference page of the tables says what the tables are."""

from pathlib import Path

from streamwarden.adapters.store.reference import page
from streamwarden.adapters.store.tables import metadata

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "store.md"


def test_the_page_is_the_one_that_the_tables_give() -> None:
    """Otherwise: python -m streamwarden.adapters.store.reference > docs/reference/store.md"""
    assert PAGE.read_text() == page()


def test_every_table_says_what_it_is_for() -> None:
    assert [table.name for table in metadata.tables.values() if not table.comment] == []
