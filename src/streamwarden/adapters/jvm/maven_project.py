"""The jar of the Maven project that a stream names in `spark.maven`: built once for each content of its sources, and
for each version of Spark.

The project is compiled against the jars of the Spark that will run it, which its pom gets as `spark.classpath`: PySpark
has all of them, so that no version is written down twice, and Maven downloads none of Spark.
"""

import hashlib
import os
import shutil
from pathlib import Path
from typing import Final

from streamwarden.adapters.jvm import maven
from streamwarden.adapters.jvm.environments import SparkEnvironment
from streamwarden.checkpoint.spark_support import Version, shown
from streamwarden.errors import ProcessError

_TARGET: Final = "target"
"""Where Maven writes."""


def sources(pom: Path) -> tuple[Path, ...]:
    """The files that the jar is made of, sorted."""
    found = (file for file in (pom.parent / "src").rglob("*") if file.is_file())
    return (pom, *sorted(found))


def built(pom: Path, spark: Version) -> Path | None:
    """The jar of the sources as they are; None if it was not built on this host. Raises OSError."""
    return next(_folder(pom, spark).glob("*.jar"), None)


def build(pom: Path, environment: SparkEnvironment) -> Path:
    """The jar; Maven compiles and tests the project if it was not built yet. Raises ProcessError, OSError.

    Maven works on a copy, so that nothing is written into the project.
    """
    spark = environment.minor
    if found := built(pom, spark):
        return found
    folder = _folder(pom, spark)
    with maven.part_of(folder) as part:
        work = part / "work"
        shutil.copytree(pom.parent, work, ignore=shutil.ignore_patterns(_TARGET))
        classpath = os.pathsep.join(map(str, sorted((environment.home / "jars").glob("*.jar"))))
        maven.run(work / pom.name, "package", f"-Dspark.classpath={classpath}")
        _only_jar(work / _TARGET, pom).rename(part / f"{pom.parent.name}.jar")
        shutil.rmtree(work)
        maven.publish(part, folder, _content(pom))
    jar = built(pom, spark)
    assert jar is not None  # it was just published
    return jar


def _only_jar(target: Path, pom: Path) -> Path:
    jars = sorted(target.glob("*.jar"))
    if len(jars) != 1:
        raise ProcessError(
            f"Maven built {len(jars)} jars: {', '.join(jar.name for jar in jars) or 'none'}",
            expected="one jar with all that Spark does not have",
            where=str(pom),
            next_step="let the project package a single jar, without those of its sources and tests",
        )
    return jars[0]


def _content(pom: Path) -> str:
    digest = hashlib.sha256()
    for file in sources(pom):
        digest.update(f"{file.relative_to(pom.parent)}\0".encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:12]


def _folder(pom: Path, spark: Version) -> Path:
    project = hashlib.sha256(str(pom).encode()).hexdigest()[:8]
    return maven.room() / f"{pom.parent.name}-{project}" / f"{_content(pom)}-{shown(spark)}"
