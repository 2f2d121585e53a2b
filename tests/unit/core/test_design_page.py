"""docs/explanation/design.md points to files that exist, and links every decision record."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
DESIGN = ROOT / "docs" / "explanation" / "design.md"
TABLE = DESIGN.read_text().partition("\n## To change X, open Y\n")[2].partition("\n## ")[0]
PATHS = sorted(set(re.findall(r"`([\w/]+(?:/|\.py|\.md))`", TABLE)))


def found(path: str) -> bool:
    return (ROOT / path).exists() or (ROOT / "src" / "streamwarden" / path).exists()


def test_every_path_of_the_table_exists() -> None:
    assert len(PATHS) >= 12
    assert [path for path in PATHS if not found(path)] == []


def test_every_layer_of_the_picture_is_there() -> None:
    """And every module below `streamwarden` is in the picture."""
    picture = DESIGN.read_text().partition("\n## Layers\n")[2].partition("\nFrom `drills`")[0]
    packages = {
        path.stem for path in (ROOT / "src" / "streamwarden").iterdir() if not path.name.startswith(("_", "py."))
    }
    assert packages - set(re.findall(r"\w+", picture)) == set()


def test_every_decision_is_linked() -> None:
    records = {path.name for path in (DESIGN.parent / "decisions").glob("*.md")}
    assert records == set(re.findall(r"\(decisions/([\w-]+\.md)\)", DESIGN.read_text()))


def test_no_folder_holds_more_than_fifteen_modules() -> None:
    folders = Counter(file.parent for file in (ROOT / "src").rglob("*.py") if file.stem != "__init__")
    assert {str(folder): modules for folder, modules in folders.items() if modules > 15} == {}
