"""Names that the installed Spark itself knows, read from its jars without a JVM: its options and its settings.

A setting is declared as `ConfigBuilder("spark.x.y")`, an option as a constant: both are strings of a class file.
"""

from __future__ import annotations

import re
import struct
import zipfile
from collections.abc import Iterator
from functools import cache

from streamwarden.adapters.jvm.spark_home import spark_home

CONFIGS = {
    "spark-core_": ("org/apache/spark/internal/config/", "org/apache/spark/SparkConf"),
    "spark-common-utils_": ("org/apache/spark/internal/config/",),
    "spark-launcher_": ("org/apache/spark/launcher/SparkLauncher",),
    "spark-kubernetes_": ("org/apache/spark/deploy/k8s/",),
    "spark-yarn_": ("org/apache/spark/deploy/yarn/",),
    "spark-catalyst_": ("org/apache/spark/sql/internal/",),
    "spark-sql_": ("org/apache/spark/sql/internal/", "org/apache/spark/sql/execution/streaming/state/RocksDBConf"),
    "spark-sql-api_": ("org/apache/spark/sql/internal/",),
}
"""Jar -> where in it the settings are declared."""

_SETTING = re.compile(r"spark\.\w[\w.$-]*")
_WIDTHS = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
"""Bytes of each kind of constant (JVM specification, table 4.4-B); text (1) has a length of its own."""


def strings(class_file: bytes) -> Iterator[str]:
    """The text constants of a class file."""
    (count,) = struct.unpack_from(">H", class_file, 8)
    at, number = 10, 1
    while number < count:
        kind = class_file[at]
        if kind == 1:
            (length,) = struct.unpack_from(">H", class_file, at + 1)
            yield class_file[at + 3 : at + 3 + length].decode("utf-8", errors="replace")
            at += 3 + length
        else:
            at += 1 + _WIDTHS[kind]
            number += kind in (5, 6)  # a long and a double take two places
        number += 1


@cache
def options() -> frozenset[str]:
    """Every `--option` of spark-submit."""
    parser = "org/apache/spark/launcher/SparkSubmitOptionParser.class"
    return frozenset(text for text in _in("spark-launcher_", parser) if text.startswith("--"))


@cache
def _texts() -> frozenset[str]:
    return frozenset(text for jar, places in CONFIGS.items() for where in places for text in _in(jar, where))


@cache
def _tails() -> frozenset[str]:
    """What is put behind a common beginning: `\\1.serviceAccountName` in a recipe, and RocksDB's bare names."""
    recipes = (text[2:] for text in _texts() if text.startswith("\1."))
    return frozenset((*recipes, *_in("spark-sql_", "org/apache/spark/sql/execution/streaming/state/RocksDBConf")))


@cache
def settings() -> frozenset[str]:
    """Every `spark.…` that Spark declares; one that ends in a dot is the beginning of many."""
    return frozenset(text for text in _texts() if _SETTING.fullmatch(text))


def knows(setting: str) -> bool:
    """Whether Spark declares this setting, whole, as one of many with a beginning, or put together of two parts."""
    if setting in settings() or any(setting.startswith(each) for each in settings() if each.endswith(".")):
        return True
    parts = setting.split(".")
    cuts = ((".".join(parts[:at]), ".".join(parts[at:])) for at in range(2, len(parts)))
    return any(head in settings() and tail in _tails() for head, tail in cuts)


def _in(jar: str, where: str) -> Iterator[str]:
    for path in sorted((spark_home() / "jars").glob(f"{jar}*.jar")):
        with zipfile.ZipFile(path) as opened:
            for name in opened.namelist():
                if name.startswith(where) and name.endswith(".class"):
                    yield from strings(opened.read(name))
