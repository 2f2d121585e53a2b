"""docs/reference/public-api.md: its names exist, and what the repository shows to authors imports no others."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

from streamwarden.verification.oracle import Expectation

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/reference/public-api.md").read_text()
PUBLIC = {
    module: frozenset(re.findall(r"`(\w+)`", names))
    for module, names in re.findall(r"^\| `(streamwarden[\w.]+)` \| (.*?) \|", PAGE, re.MULTILINE)
}


def code_blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def jobs_inside(script: Path) -> list[str]:
    """The jobs that a script writes to files: its literals that define `build`."""
    literals = (node.value for node in ast.walk(ast.parse(script.read_text())) if isinstance(node, ast.Constant))
    return [text for text in literals if isinstance(text, str) and "def build(" in text]


SHOWN = [
    *((file, file.read_text()) for file in sorted((ROOT / "spark_jobs").rglob("*.py"))),
    *((page, text) for page in sorted((ROOT / "docs").rglob("*.md")) for text in code_blocks(page)),
    *((script, text) for script in sorted((ROOT / "benchmarks").rglob("*.py")) for text in jobs_inside(script)),
]


def internal(code: str) -> set[str]:
    """What `code` imports of Streamwarden and the page does not list."""
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "streamwarden":
            found |= {
                f"{node.module}.{name.name}" for name in node.names if name.name not in PUBLIC.get(str(node.module), ())
            }
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names if name.name.split(".")[0] == "streamwarden"}
    return found


@pytest.mark.parametrize("module", sorted(PUBLIC))
def test_the_names_of_the_page_are_those_of_the_module(module: str) -> None:
    imported = importlib.import_module(module)
    assert set(imported.__all__) == PUBLIC[module]
    assert all(hasattr(imported, name) for name in PUBLIC[module])


def test_what_authors_copy_imports_public_names_alone() -> None:
    kinds = {path.relative_to(ROOT).parts[0] for path, _ in SHOWN}
    assert kinds == {"spark_jobs", "docs", "benchmarks"}
    assert {str(path.relative_to(ROOT)): internal(code) for path, code in SHOWN if internal(code)} == {}


@pytest.mark.parametrize(
    "code",
    [
        "from streamwarden.verification.windows import least_watermarks",
        "from streamwarden.services.workspace import Workspace",
        "import streamwarden.stream",
        "def build(spark, spec):\n    from streamwarden.spark.driver.jobs import load_build",
    ],
)
def test_an_internal_name_is_found(code: str) -> None:
    assert internal(code)


def test_page_names_the_return_values_of_an_oracle() -> None:
    assert Expectation.__name__ in PUBLIC[Expectation.__module__]
